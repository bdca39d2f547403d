package natsembed

import (
	"math"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
)

// Subscribers returns a function that calls a function with the number of each connection
// in the account of the listener's clients that is subscribed to a subject, once for each
// of its subscriptions that differ. The subscriptions are those at the time of the call to
// Subscribers, whose cost grows with their number.
func (s *Server) Subscribers() func(subject string, connection func(number uint64)) {
	all := gsl.NewSublist[uint64]()
	found, err := s.nats().Subsz(&server.SubszOptions{Account: clientAccount, Subscriptions: true, Limit: math.MaxInt32})
	if err == nil {
		for _, subscription := range found.Subs {
			_ = all.Insert(subscription.Subject, subscription.Cid) // the server has checked the subject
		}
	}
	return all.Match
}
