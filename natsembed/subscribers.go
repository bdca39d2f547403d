package natsembed

import (
	"math"
	"net"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
)

// Subscribers returns a function that returns the connections in the account of the
// listener's clients that are subscribed to a subject, by their numbers: a connection
// stands there once for each of its subscriptions that match. The subscriptions are those at
// the time of the call to Subscribers, whose cost grows with their number.
func (s *Server) Subscribers() func(subject string) (connections []uint64) {
	all := gsl.NewSublist[uint64]()
	found, err := s.nats().Subsz(&server.SubszOptions{Account: clientAccount, Subscriptions: true, Limit: math.MaxInt32})
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
func (s *Server) Address(connection uint64) (address string, open bool) {
	client := s.nats().GetClient(connection)
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

// Connected reports whether a connection that Subscribers has named is still open.
func (s *Server) Connected(connection uint64) bool { return s.nats().GetClient(connection) != nil }

// Listened reports whether a connection in the account of the listener's clients is
// subscribed to a subject now.
func (s *Server) Listened(subject string) bool {
	return s.now.Load().auth.clients.SubscriptionInterest(subject)
}
