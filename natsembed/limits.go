package natsembed

import (
	"cmp"
	"errors"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/wire/clientnet"
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

	// minPendingPause and maxPendingPause bound the pause between two checks of these. In
	// between it is pendingShare times as long as a check, which takes longer the more
	// clients there are.
	minPendingPause, maxPendingPause = 20 * time.Millisecond, 100 * time.Millisecond
	pendingShare                     = 5

	// writeDeadline is how long a client may read nothing of what is waiting for it.
	writeDeadline = 5 * time.Second
)

func (c Config) setLimits(options *server.Options) {
	options.MaxConn = c.maxConnections() + c.spareConnections()
	options.MaxSubs = maxSubscriptions
	options.MaxPayload = maxPayload
	options.MaxControlLine = maxControlLine
	options.WriteDeadline = writeDeadline
	// By default nats-server closes a connection that has not read all that was waiting for
	// it in that time: in a flood also that of the gateway, which reads without a pause.
	options.WriteTimeout = server.WriteTimeoutPolicyRetry
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
	if c.MaxConnections < 0 || c.MaxConnectionsPerIP < 0 {
		return errors.New("maximums of NATS connections must not be negative")
	}
	return nil
}

// Refusals counts the clients of the listener that were refused or disconnected, by the
// reason.
type Refusals struct {
	MaxConnections      atomic.Int64 // Config.MaxConnections
	MaxConnectionsPerIP atomic.Int64 // Config.MaxConnectionsPerIP
	Flood               atomic.Int64 // sent more than the service can read, or came from such a client's address
	Unread              atomic.Int64 // did not read what they were sent
}

// Refusals returns the counts since the start.
func (s *Server) Refusals() *Refusals { return &s.refusals }

// refusal returns the count of the reason to refuse another client from an address, or nil.
func (a *authenticator) refusal(address netip.Prefix, rested bool) *atomic.Int64 {
	switch counts := a.srv.Refusals(); {
	case !rested:
		return &counts.Flood
	case a.clients.NumLocalConnections() >= a.cfg.maxConnections(): // services count as clients
		return &counts.MaxConnections
	case a.isFullFor(address):
		return &counts.MaxConnectionsPerIP
	}
	return nil
}

// isFullFor reports whether the listener has all the clients that it may have from an
// address.
func (a *authenticator) isFullFor(address netip.Prefix) bool {
	if a.cfg.MaxConnectionsPerIP == 0 {
		return false
	}
	open, err := a.srv.clients()
	n := 0
	for _, client := range open {
		if addressOf(client.IP) == address {
			n++
		}
	}
	return err != nil || n >= a.cfg.MaxConnectionsPerIP
}

// addressOf returns the network by which limits count the clients at an IP address.
func addressOf(ip string) netip.Prefix {
	addr, _ := netip.ParseAddr(ip) // nats-server wrote it
	return clientnet.Of(addr)
}

// clients returns the connections in the account of the listener's clients: theirs, and
// those of services, which have no IP.
func (s *Server) clients() ([]*server.ConnInfo, error) {
	open, err := s.nats().Connz(&server.ConnzOptions{Account: clientAccount, Limit: math.MaxInt32})
	if err != nil {
		return nil, err // the server is stopping
	}
	return open.Conns, nil
}

// limitPending disconnects clients that do not read, and clients that send more than a
// service can read, until s.stopping is closed.
func (s *Server) limitPending() {
	var sent traffic
	for took := time.Duration(0); s.pause(min(max(pendingShare*took, minPendingPause), maxPendingPause)); {
		began := time.Now()
		sent = s.disconnectSlow(sent)
		took = time.Since(began)
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
func (s *Server) disconnectSlow(before traffic) traffic {
	open, err := s.clients()
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
			s.disconnect(client, &s.refusals.Unread, "it does not read what it is sent")
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
			s.disconnect(client, &s.refusals.Flood, "it sends more than the gateway can read")
		}
	}
	return before
}

func (s *Server) disconnect(client *server.ConnInfo, count *atomic.Int64, reason string) {
	count.Add(1)
	s.cfg.Logger.Warn().Uint64("client", client.Cid).
		Int("pending_bytes", client.Pending).Int64("messages", client.InMsgs).
		Msg("NATS client disconnected: " + reason)
	s.floods.note(addressOf(client.IP), time.Now())
	_ = s.nats().DisconnectClientByID(client.Cid) // it may be gone already
}
