// Package listener bounds what the clients of nats-server's listener may take: Limits is how
// many there may be, and what one may send and subscribe to. A Guard accepts clients, and
// disconnects those that flood the service or do not read. It also finds the connections that
// are subscribed to a subject.
//
// README.md of gateway/natsapi, "What bounds a flood", says what fails without each of these.
package listener

import (
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
	"github.com/rs/zerolog"
)

// Guard guards the listener of a nats-server. Its methods are safe for concurrent use.
type Guard struct {
	limits   Limits
	account  string // of the clients, and of the services that answer them
	server   func() *server.Server
	log      zerolog.Logger
	stopping <-chan struct{}

	refusals  Refusals
	floods    floods
	admitting sync.Mutex // held from counting an address's connections until one more counts
}

// Refusals counts the clients that were refused or disconnected, by the reason.
type Refusals struct {
	MaxConnections      atomic.Int64 // Limits.MaxConnections
	MaxConnectionsPerIP atomic.Int64 // Limits.MaxConnectionsPerIP
	Flood               atomic.Int64 // sent more than the service can read, or came from such a client's address
	Unread              atomic.Int64 // did not read what they were sent
}

// New returns a Guard. account is the one of the listener's clients, and of the services within
// the process that answer them. server returns the nats-server that runs, which a restart may
// replace. Watch and Admit return when stopping is closed.
func New(limits Limits, account string, server func() *server.Server, log zerolog.Logger, stopping <-chan struct{}) *Guard {
	return &Guard{limits: limits, account: account, server: server, log: log, stopping: stopping}
}

// Refusals returns the counts since the start.
func (g *Guard) Refusals() *Refusals { return &g.refusals }

// connections returns those in the account: of clients, and of services, which have no IP.
func (g *Guard) connections() ([]*server.ConnInfo, error) {
	open, err := g.server().Connz(&server.ConnzOptions{Account: g.account, Limit: math.MaxInt32})
	if err != nil {
		return nil, err // the server is stopping
	}
	return open.Conns, nil
}

// Subscribers returns a function that returns the connections in the account that are subscribed
// to a subject, by their numbers: a connection stands there once for each of its subscriptions
// that match. The subscriptions are those at the time of the call to Subscribers, whose cost
// grows with their number.
func (g *Guard) Subscribers() func(subject string) (connections []uint64) {
	all := gsl.NewSublist[uint64]()
	found, err := g.server().Subsz(&server.SubszOptions{Account: g.account, Subscriptions: true, Limit: math.MaxInt32})
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
	client := g.server().GetClient(connection)
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
