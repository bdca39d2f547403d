package listener

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPendingBytes bounds what the server keeps for one client that does not read.
	// nats-server's own option is not used, since it would also bound the connections
	// within the process: JetStream sends up to 32 MiB of a reading before it waits for an
	// acknowledgement.
	maxPendingBytes = 1 << 20

	// maxBacklog bounds what the server keeps for a connection within the process that
	// does not keep up. At 64 MiB nats-server would close it, and with it the service of
	// all clients. It holds some 20,000 requests, and delays those that follow them.
	maxBacklog = 2 << 20

	// floodBytes is what one client has to send while there is a backlog to be its cause,
	// and floodTotal what all have to send together, so that many connections of a flood
	// are noticed before each has sent so much. Each message counts messageCost beside the
	// bytes of its payload.
	floodBytes  = 1 << 20
	floodTotal  = 8 << 20
	messageCost = 128

	// minWatchPause and maxWatchPause bound the pause between two checks of these. In
	// between it is watchShare times as long as a check, which takes longer the more
	// clients there are.
	minWatchPause, maxWatchPause = 20 * time.Millisecond, 100 * time.Millisecond
	watchShare                   = 5

	// floodRest is how long no client is accepted from an address after a flood from
	// there. A flood would otherwise go on at once over a new connection. Each further
	// flood doubles the rest, up to maxFloodRest.
	floodRest    = time.Second
	maxFloodRest = 16 * time.Second

	// floodMemory is how long after a rest a flood still counts as a further one.
	floodMemory = time.Minute

	// maxFloodWait is how long a connection from such an address waits to be accepted.
	// Refused at once, a client would try again and again. nats-server closes the
	// connection after ConnectTimeout.
	maxFloodWait = ConnectTimeout - time.Second
)

// Watch disconnects clients that do not read, and clients that send more than a service can
// read.
func (g *Guard) Watch() {
	var sent traffic
	for pause := minWatchPause; ; {
		select {
		case <-g.stopping:
			return
		case <-time.After(pause):
		}
		began := time.Now()
		sent = g.disconnectSlow(sent)
		pause = min(max(watchShare*time.Since(began), minWatchPause), maxWatchPause)
	}
}

// traffic is what each client has sent, by its number.
type traffic map[uint64]int64

// disconnectSlow disconnects each client for which the server keeps more than
// maxPendingBytes. If it keeps more than maxBacklog for a connection within the process,
// disconnectSlow also disconnects the clients that have flooded it: the one that has sent
// the most since before, and those that have sent at least an eighth as much, if that one has
// sent more than floodBytes, or all together more than floodTotal. It returns what each
// client had sent when there was no backlog.
func (g *Guard) disconnectSlow(before traffic) traffic {
	open, err := g.connections()
	if err != nil {
		return nil
	}
	sent, backlog, most, total := traffic{}, false, int64(0), int64(0)
	for _, client := range open {
		if client.IP == "" { // within the process
			backlog = backlog || client.Pending > maxBacklog
			continue
		}
		if client.Pending > maxPendingBytes {
			g.disconnect(client, &g.refusals.Unread, "it does not read what it is sent")
		}
		sent[client.Cid] = client.InBytes + messageCost*client.InMsgs
		since := sent[client.Cid] - before[client.Cid]
		most, total = max(most, since), total+since
	}
	if !backlog {
		return sent
	}
	if most <= floodBytes && total <= floodTotal {
		return before
	}
	for _, client := range open {
		if client.IP != "" && sent[client.Cid]-before[client.Cid] >= most/8 {
			g.disconnect(client, &g.refusals.Flood, "it sends more than the gateway can read")
		}
	}
	return before
}

func (g *Guard) disconnect(client *server.ConnInfo, count *atomic.Int64, reason string) {
	count.Add(1)
	g.cfg.Logger.Warn("NATS client disconnected: "+reason,
		"client", client.Cid, "pending_bytes", client.Pending, "messages", client.InMsgs)
	g.floods.note(addressOf(client.IP), time.Now())
	_ = g.cfg.Server().DisconnectClientByID(client.Cid) // it may be gone already
}

// floods are the addresses from which clients have flooded the service. Its zero value has
// none.
type floods struct {
	mu    sync.Mutex
	rests map[netip.Prefix]rest
}

type rest struct {
	length time.Duration
	until  time.Time
}

// note begins the rest of an address, or begins it anew if it is not over: the clients at
// the address that were accepted before may be part of the same flood.
func (f *floods) note(address netip.Prefix, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.rests, func(_ netip.Prefix, r rest) bool { return now.Sub(r.until) > floodMemory })
	r := f.rests[address]
	if now.After(r.until) {
		r.length = min(max(2*r.length, floodRest), maxFloodRest)
	}
	r.until = now.Add(r.length)
	if f.rests == nil {
		f.rests = map[netip.Prefix]rest{}
	}
	f.rests[address] = r
}

// left returns how long an address still rests; it may be negative.
func (f *floods) left(address netip.Prefix, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rests[address].until.Sub(now)
}

// awaitRest waits until an address does not rest, but no longer than maxFloodWait. It
// returns false if the address still rests then, or the server stops.
func (g *Guard) awaitRest(address netip.Prefix) bool {
	giveUp := time.After(maxFloodWait)
	for left := g.floods.left(address, time.Now()); left > 0; left = g.floods.left(address, time.Now()) {
		select {
		case <-g.stopping:
			return false
		case <-giveUp:
			return false
		case <-time.After(left):
		}
	}
	return true
}
