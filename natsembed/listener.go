package natsembed

import "github.com/kvslots/kvslots/natsembed/internal/listener"

// DefaultMaxConnections is the default of Config.MaxConnections.
const DefaultMaxConnections = listener.DefaultMaxConnections

// Refusals counts the clients of the listener that were refused or disconnected, by the reason,
// in fields of type atomic.Int64: MaxConnections and MaxConnectionsPerIP (the limits of Config),
// Flood (the client sent more than the service can read, or came from such a client's address)
// and Unread (it did not read what it was sent).
type Refusals = listener.Refusals

func (c Config) limits() listener.Limits {
	return listener.Limits{MaxConnections: c.MaxConnections, MaxConnectionsPerIP: c.MaxConnectionsPerIP}
}

// Refusals returns the counts since the start.
func (s *Server) Refusals() *Refusals { return s.guard.Refusals() }

// Subscribers returns a function that returns the connections in the account of the
// listener's clients that are subscribed to a subject, by their numbers: a connection
// stands there once for each of its subscriptions that match. The subscriptions are those at
// the time of the call to Subscribers, whose cost grows with their number.
func (s *Server) Subscribers() func(subject string) (connections []uint64) {
	return s.guard.Subscribers()
}

// Address returns the address and port of a connection that Subscribers has named, or "" for
// one within the process; open is false if the connection is closed.
func (s *Server) Address(connection uint64) (address string, open bool) {
	return s.guard.Address(connection)
}

// Connected reports whether a connection that Subscribers has named is still open.
func (s *Server) Connected(connection uint64) bool { return s.nats().GetClient(connection) != nil }

// Listened reports whether a connection in the account of the listener's clients is
// subscribed to a subject now.
func (s *Server) Listened(subject string) bool {
	return s.now.Load().auth.clients.SubscriptionInterest(subject)
}
