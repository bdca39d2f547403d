package natsembed

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The limits of the listener's clients. nats-server applies those of its options to the
// connections within the process, too, which stay far below them.
const (
	// DefaultMaxConnections is the default of Config.MaxConnections.
	DefaultMaxConnections = 1024

	// maxSpareConnections bounds what spareConnections returns; minSpareConnections are
	// enough for the connections within the process.
	minSpareConnections, maxSpareConnections = 8, 64

	// maxSubscriptions bounds the subscriptions of one client. A client needs one for
	// all its requests, or one for each open request. A client that subscribes many
	// times to the same inbox receives each answer as often.
	maxSubscriptions = 256

	// maxPayload bounds a message. Bodies of requests have at most half of it, so that
	// it also has room for a call of a function; entries of the bucket are far smaller.
	maxPayload = 128 << 10

	// maxControlLine bounds a line of the protocol. The longest is a CONNECT with
	// credentials.
	maxControlLine = 2 << 10

	// maxPendingBytes bounds what the server keeps for one client that does not read.
	// nats-server's own option is not used, since it would also bound the connections
	// within the process: JetStream sends up to 32 MiB of a watch before it waits for an
	// acknowledgement.
	maxPendingBytes = 1 << 20

	// maxBacklog bounds what the server keeps for a connection within the process that
	// does not keep up. At 64 MiB nats-server would close it, and with it the service of
	// all clients. Requests of clients that wait for their answers take far less.
	maxBacklog = 8 << 20

	// floodBytes is what one client has to send between two checks to be the cause of a
	// backlog. Each message counts messageCost beside the bytes of its payload.
	floodBytes  = 1 << 20
	messageCost = 128

	// pendingEvery is how often these are checked.
	pendingEvery = 100 * time.Millisecond

	// writeDeadline bounds one write to a client.
	writeDeadline = 5 * time.Second
)

// setLimits sets the options that bound clients.
func (c Config) setLimits(options *server.Options) {
	options.MaxConn = c.maxConnections() + c.spareConnections()
	options.MaxSubs = maxSubscriptions
	options.MaxPayload = maxPayload
	options.MaxControlLine = maxControlLine
	options.WriteDeadline = writeDeadline
}

func (c Config) maxConnections() int { return cmp.Or(c.MaxConnections, DefaultMaxConnections) }

// spareConnections returns how many connections the server accepts beyond
// MaxConnections: those within the process, and those of clients that have not
// authenticated yet. There are few where MaxConnections is low, since a caller may have
// lowered it for the sake of open files.
func (c Config) spareConnections() int {
	return min(max(c.maxConnections()/2, minSpareConnections), maxSpareConnections)
}

func (c Config) validateLimits() error {
	if c.MaxConnections < 0 {
		return errors.New("the maximum of NATS connections must not be negative")
	}
	return nil
}

// isFull reports whether the listener has all the clients that it may have. Services
// count as clients.
func (a *authenticator) isFull() bool {
	return a.clients.NumLocalConnections() >= a.cfg.maxConnections()
}

// limitPending disconnects clients that do not read, and clients that send more than a
// service can read, until s.stopping is closed.
func (s *Server) limitPending() {
	var sent traffic
	for s.pause(pendingEvery) {
		sent = s.disconnectSlow(sent)
	}
}

// traffic is what each client has sent, by its number.
type traffic map[uint64]int64

// disconnectSlow disconnects each client for which the server keeps more than
// maxPendingBytes. If it keeps more than maxBacklog for a connection within the process,
// disconnectSlow also disconnects the client that has flooded it since before. It returns
// what each client has sent until now.
func (s *Server) disconnectSlow(before traffic) traffic {
	open, err := s.nats().Connz(&server.ConnzOptions{Account: clientAccount, Limit: math.MaxInt32})
	if err != nil {
		return nil // the server is stopping
	}
	sent, backlog, most := traffic{}, false, int64(floodBytes)
	var busiest *server.ConnInfo
	for _, client := range open.Conns {
		if client.IP == "" { // within the process
			backlog = backlog || client.Pending > maxBacklog
			continue
		}
		if client.Pending > maxPendingBytes {
			s.disconnect(client, "it does not read what it is sent")
		}
		sent[client.Cid] = client.InBytes + messageCost*client.InMsgs
		if n := sent[client.Cid] - before[client.Cid]; n > most {
			busiest, most = client, n
		}
	}
	if backlog && busiest != nil {
		s.disconnect(busiest, "it sends more than the gateway can read")
	}
	return sent
}

func (s *Server) disconnect(client *server.ConnInfo, reason string) {
	s.cfg.Logger.Warn().Uint64("client", client.Cid).
		Int("pending_bytes", client.Pending).Int64("messages", client.InMsgs).
		Msg("NATS client disconnected: " + reason)
	_ = s.nats().DisconnectClientByID(client.Cid) // it may be gone already
}
