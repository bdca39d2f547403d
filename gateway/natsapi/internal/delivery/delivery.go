package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// quickGrant bounds the time of a grant that did not wait in line. A Sender treats a
// grant that took longer, such as one that waited for another request of its session, like
// one that waited in line. Even a busy machine takes less.
const quickGrant = time.Second

type Outcome int

const (
	Unknown Outcome = iota // the connection broke before the server reported it
	Heard                  // a client was subscribed to the reply subject, or has confirmed
	Unheard                // no client was subscribed or confirmed, or nothing was sent
)

type Config struct {
	// ReplyPrefixes are prefixes of reply subjects that are allowed beside those of every
	// client. CheckReplyPrefix must accept them.
	ReplyPrefixes []string

	// Listened reports whether a client is subscribed to a subject, if clients may publish to
	// the reply subject of what they receive, and may receive what is sent to others: a grant
	// then has no reply subject, unless its client confirms it. It is nil if they may not.
	Listened func(subject string) bool

	// Confirmed and Refused are the answers to confirmations, without the subject.
	Confirmed, Refused *nats.Msg

	// Logger receives that MayAnswer has refused requests, once a minute.
	Logger *slog.Logger
}

// Sender sends the answers of one service. It is safe for concurrent use.
type Sender struct {
	replies       replies
	deliveries    *deliveries
	confirmations *confirmations
}

// Start returns a Sender on nc, which its caller must close only after the Sender.
func Start(nc *nats.Conn, cfg Config) (s *Sender, err error) {
	s = &Sender{replies: replies{own: inboxPrefix(nc), further: cfg.ReplyPrefixes, log: cfg.Logger, logged: rate.Sometimes{Interval: refusalsEvery}}}
	if s.deliveries, err = newDeliveries(nc, cfg.Listened); err != nil {
		return nil, err
	}
	if s.confirmations, err = newConfirmations(nc, s, cfg); err != nil {
		s.deliveries.close()
		return nil, err
	}
	return s, nil
}

func (s *Sender) Close() {
	s.confirmations.close()
	s.deliveries.close()
}

// MayAnswer reports whether a request with this reply subject may be served. A request
// without one gets no answer, and may.
func (s *Sender) MayAnswer(reply string) bool { return s.replies.mayGoTo(reply) }

// Grant publishes the grant of a request. queued reports whether the request has waited in line, confirms whether its client
// will confirm the grant. Grant blocks until the outcome is known, or until ctx ends: for a round trip to the server, or for up
// to confirmTimeout if the client confirms a grant after a wait. A client of which the server has not noticed yet that it has died
// counts as alive, unless it confirms.
func (s *Sender) Grant(ctx context.Context, grant *nats.Msg, arrived time.Time, queued, confirms bool) Outcome {
	if confirms && (queued || time.Since(arrived) > quickGrant) {
		return s.confirmations.send(ctx, grant)
	}
	return s.deliveries.send(grant)
}

// Listens reports whether a client may be subscribed to a reply subject, as far as the server has
// noticed. It does not know that of the reply subject of a service import, which a probe would use
// up before the answer.
func (s *Sender) Listens(reply string) bool {
	return usedUp(reply) || s.deliveries.listens(reply) != Unheard
}
