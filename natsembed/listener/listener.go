package listener

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
)

// Config configures a Guard.
type Config struct {
	Limits

	// Account is that of the listener's clients, and of the services within the process that
	// answer them.
	Account string

	// Server returns the nats-server that runs, which a restart may replace.
	Server func() *server.Server

	// ClientsReply is what Guard.ClientsReply returns.
	ClientsReply bool

	Logger *slog.Logger // nil means no log
}

// Guard guards the listener of a nats-server. Its methods are safe for concurrent use.
type Guard struct {
	cfg       Config
	stopping  <-chan struct{}
	refusals  Refusals
	admitting sync.Mutex // held from counting an address's connections until one more counts
}

// Refusals counts the clients that were refused or disconnected, by the reason.
type Refusals struct {
	MaxConnections      atomic.Int64 // Limits.MaxConnections
	MaxConnectionsPerIP atomic.Int64 // Limits.MaxConnectionsPerIP
	Unread              atomic.Int64 // did not read what they were sent
}

// New returns a Guard. Watch returns when stopping is closed.
func New(cfg Config, stopping <-chan struct{}) *Guard {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Guard{cfg: cfg, stopping: stopping}
}

// Refusals returns the counts since the start.
func (g *Guard) Refusals() *Refusals { return &g.refusals }

// connections returns those in the account: of clients, and of services, which have no IP.
func (g *Guard) connections() ([]*server.ConnInfo, error) {
	open, err := g.cfg.Server().Connz(&server.ConnzOptions{Account: g.cfg.Account, Limit: math.MaxInt32})
	if err != nil {
		return nil, err // the server is stopping
	}
	return open.Conns, nil
}

// NumClients returns the number of connected clients.
func (g *Guard) NumClients() (n int) {
	open, _ := g.connections()
	for _, client := range open {
		if client.IP != "" {
			n++
		}
	}
	return n
}

// Subscribers returns a function that returns the connections in the account that are subscribed
// to a subject, by their numbers: a connection stands there once for each of its subscriptions
// that match. The subscriptions are those at the time of the call to Subscribers, whose cost
// grows with their number.
func (g *Guard) Subscribers() func(subject string) (connections []uint64) {
	all := gsl.NewSublist[uint64]()
	found, err := g.cfg.Server().Subsz(&server.SubszOptions{Account: g.cfg.Account, Subscriptions: true, Limit: math.MaxInt32})
	if err == nil {
		for _, subscription := range found.Subs {
			_ = all.Insert(subscription.Subject, subscription.Cid) // the server has checked the subject
		}
	}
	return func(subject string) (connections []uint64) {
		all.Match(subject, func(number uint64) { connections = append(connections, number) })
		return connections
	}
}

// Address returns the address and port of a connection that Subscribers has named, or "" for
// one within the process; open is false if the connection is closed.
func (g *Guard) Address(connection uint64) (address string, open bool) {
	client := g.cfg.Server().GetClient(connection)
	if client == nil {
		return "", false
	}
	switch remote := client.RemoteAddress().(type) {
	case nil:
		return "", false
	case *net.TCPAddr:
		return remote.String(), true
	}
	return "", true
}

// Listened reports whether a connection in the account is subscribed to a subject now.
func (g *Guard) Listened(subject string) bool {
	account, err := g.cfg.Server().LookupAccount(g.cfg.Account)
	return err == nil && account.SubscriptionInterest(subject)
}

// ClientsReply reports whether every client may publish to the reply subjects of what it
// receives.
func (g *Guard) ClientsReply() bool { return g.cfg.ClientsReply }
