package listener

import "time"

const (
	// maxPendingBytes bounds what the server keeps for one client that does not read.
	// nats-server's own option is not used, since it would also bound the connections
	// within the process: JetStream sends up to 32 MiB of a reading before it waits for an
	// acknowledgement.
	maxPendingBytes = 1 << 20

	// watchEvery is the pause between two looks at what the server keeps.
	watchEvery = 50 * time.Millisecond
)

// Watch disconnects clients that do not read.
func (g *Guard) Watch() {
	for {
		select {
		case <-g.stopping:
			return
		case <-time.After(watchEvery):
			g.disconnectUnread()
		}
	}
}

// disconnectUnread disconnects each client for which the server keeps more than
// maxPendingBytes.
func (g *Guard) disconnectUnread() {
	open, _ := g.connections()
	for _, client := range open {
		if client.IP == "" || client.Pending <= maxPendingBytes { // no IP: within the process
			continue
		}
		g.refusals.Unread.Add(1)
		g.cfg.Logger.Warn("NATS client disconnected: it does not read what it is sent",
			"client", client.Cid, "pending_bytes", client.Pending, "messages", client.InMsgs)
		_ = g.cfg.Server().DisconnectClientByID(client.Cid) // it may be gone already
	}
}
