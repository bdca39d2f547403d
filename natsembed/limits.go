package natsembed

import (
	"cmp"
	"errors"
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

	// pendingEvery is how often maxPendingBytes is checked, for the slowestClients for
	// which the server keeps the most bytes.
	pendingEvery   = 100 * time.Millisecond
	slowestClients = 1024

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

// limitPending disconnects clients that do not read, until s.stopping is closed.
func (s *Server) limitPending() {
	for s.pause(pendingEvery) {
		s.disconnectSlow()
	}
}

// disconnectSlow disconnects each client for which the server keeps more than
// maxPendingBytes.
func (s *Server) disconnectSlow() {
	nats := s.nats()
	open, err := nats.Connz(&server.ConnzOptions{Account: clientAccount, Sort: server.ByPending, Limit: slowestClients})
	if err != nil {
		return // the server is stopping
	}
	for _, client := range open.Conns {
		if client.Pending <= maxPendingBytes {
			return // they are sorted
		}
		if client.IP == "" {
			continue // within the process
		}
		s.cfg.Logger.Warn().Uint64("client", client.Cid).Int("pending_bytes", client.Pending).
			Msg("NATS client disconnected: it does not read what it is sent")
		_ = nats.DisconnectClientByID(client.Cid) // it may be gone already
	}
}
