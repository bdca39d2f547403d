package listener

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/clientnet"
)

// The limits of nats-server itself. It applies them to the connections within the process, too,
// which stay far below them.
const (
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

	// writeDeadline is how long a client may read nothing of what is waiting for it.
	writeDeadline = 5 * time.Second
)

// ConnectTimeout bounds how long a connection takes to be opened. On a busy machine, the 2
// seconds of nats-server and of its client are too short.
const ConnectTimeout = 5 * time.Second

// maxSpareConnections bounds what spareConnections returns; minSpareConnections are enough for
// the connections within the process.
const minSpareConnections, maxSpareConnections = 8, 64

// DefaultMaxConnections is Limits.MaxConnections when it is 0.
const DefaultMaxConnections = 1024

// Limits are how many clients the listener accepts: in all, together with services, and from
// each address; 0 means DefaultMaxConnections, and no limit.
type Limits struct{ MaxConnections, MaxConnectionsPerIP int }

// Validate returns an error if a limit is negative.
func (l Limits) Validate() error {
	if l.MaxConnections < 0 || l.MaxConnectionsPerIP < 0 {
		return errors.New("maximums of NATS connections must not be negative")
	}
	return nil
}

// Apply sets nats-server's options. A Guard must enforce the rest.
func (l Limits) Apply(options *server.Options) {
	options.MaxConn = l.maxConnections() + l.spareConnections()
	options.MaxSubs = maxSubscriptions
	options.MaxPayload = maxPayload
	options.MaxControlLine = maxControlLine
	options.AuthTimeout = ConnectTimeout.Seconds()
	options.WriteDeadline = writeDeadline
	// By default nats-server closes a connection that has not read all that was waiting for
	// it in that time: in a flood also that of the gateway, which reads without a pause.
	options.WriteTimeout = server.WriteTimeoutPolicyRetry
}

func (l Limits) maxConnections() int { return cmp.Or(l.MaxConnections, DefaultMaxConnections) }

// spareConnections returns how many connections the server accepts beyond
// MaxConnections: those within the process, and those of clients that have not
// authenticated yet. There are few where MaxConnections is low, since a caller may have
// lowered it for the sake of open files.
func (l Limits) spareConnections() int {
	return min(max(l.maxConnections()/2, minSpareConnections), maxSpareConnections)
}

// Admit has a client register that has authenticated, or have it refused.
func (g *Guard) Admit(remote net.Addr, register func(accepted bool)) {
	host, _, _ := net.SplitHostPort(remote.String())
	address := addressOf(host)
	g.admitting.Lock()
	defer g.admitting.Unlock()
	refused := g.refusal(address)
	if refused != nil {
		refused.Add(1)
	}
	register(refused == nil)
}

// refusal returns the count of the reason to refuse another client from an address, or nil.
func (g *Guard) refusal(address netip.Prefix) *atomic.Int64 {
	account, err := g.cfg.Server().LookupAccount(g.cfg.Account)
	switch {
	case err != nil || account.NumLocalConnections() >= g.cfg.maxConnections(): // services count, too
		return &g.refusals.MaxConnections
	case g.cfg.MaxConnectionsPerIP > 0 && g.isFullFor(address):
		return &g.refusals.MaxConnectionsPerIP
	}
	return nil
}

// isFullFor reports whether the listener has all the clients that it may have from an address.
func (g *Guard) isFullFor(address netip.Prefix) bool {
	open, err := g.connections()
	n := 0
	for _, client := range open {
		if addressOf(client.IP) == address {
			n++
		}
	}
	return err != nil || n >= g.cfg.MaxConnectionsPerIP
}

// addressOf returns the network by which limits count the clients at an IP address.
func addressOf(ip string) netip.Prefix {
	addr, _ := netip.ParseAddr(ip) // nats-server wrote it
	return clientnet.Of(addr)
}
