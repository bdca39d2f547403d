package delivery

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// confirmTimeout is how long a client may take to confirm a grant. It covers the
	// slowest round trip between continents and a long pause of the client's process,
	// since a client that is alive and late loses its turn. A probe notices a dead
	// client sooner.
	confirmTimeout = time.Second

	// firstProbe is when the server is first asked whether the reply subject of an
	// unconfirmed grant still has a subscription. It is a little longer than the
	// server takes to notice a closed socket; see deathNotice. Each further probe
	// waits twice as long as the one before.
	firstProbe = 5 * time.Millisecond
)

// confirmations sends grants that their clients confirm.
//
// The reply subject of a grant is a subject that only its client learns. The client sends
// an empty request there, and holds the grant once that request is answered without an
// error. So both sides know the outcome: a grant that the client does not confirm in time
// goes to the next in line, and the service refuses a later confirmation. Since the client
// waits for the answer, the service may take a grant back without knowing whether it
// arrived.
type confirmations struct {
	nc     *nats.Conn
	sender *Sender // probes reply subjects, and decides which are allowed
	prefix string  // of this gateway's subjects
	sub    *nats.Subscription

	confirmed, refused *nats.Msg // see Config

	mu   sync.Mutex
	open map[string]*unconfirmed // by subject
}

// unconfirmed is a grant that waits for its confirmation.
type unconfirmed struct {
	result   chan Outcome
	reported chan struct{} // a message came that looks like the server's status 503
}

func newConfirmations(nc *nats.Conn, s *Sender, cfg Config) (c *confirmations, err error) {
	c = &confirmations{
		nc: nc, sender: s, confirmed: cfg.Confirmed, refused: cfg.Refused,
		prefix: randomBelow(subjects.Confirm) + ".",
		open:   map[string]*unconfirmed{},
	}
	c.sub, err = nc.Subscribe(c.prefix+"*", c.receive)
	return c, err
}

// send publishes a grant. It returns Heard if the client confirmed it, and otherwise
// Unheard; a later confirmation is refused then. It takes up to confirmTimeout, but only
// milliseconds for a client that has disconnected.
func (c *confirmations) send(ctx context.Context, grant *nats.Msg) Outcome {
	waiting := &unconfirmed{make(chan Outcome, 1), make(chan struct{}, 1)}
	reported := waiting.reported
	grant.Reply = randomBelow(c.prefix)
	grant.Header.Set(wire.ConfirmHeader, strconv.FormatInt(confirmTimeout.Milliseconds(), 10))
	c.mu.Lock()
	c.open[grant.Reply] = waiting
	c.mu.Unlock()
	if c.nc.PublishMsg(grant) != nil {
		return c.end(grant.Reply, waiting)
	}
	began, pause := time.Now(), firstProbe
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case what := <-waiting.result:
			return what
		case <-ctx.Done():
			return c.end(grant.Reply, waiting)
		case <-reported:
			if usedUp(grant.Subject) || c.sender.deliveries.listens(grant.Subject) != Heard {
				return c.end(grant.Reply, waiting)
			}
			reported = nil // by a client; the server would have done it before
			continue
		case <-timer.C:
		}
		if time.Since(began) >= confirmTimeout || !usedUp(grant.Subject) && c.sender.deliveries.listens(grant.Subject) == Unheard {
			return c.end(grant.Reply, waiting)
		}
		pause *= 2
		timer.Reset(min(pause, confirmTimeout-time.Since(began)))
	}
}

// usedUp reports whether a reply subject reaches its client only once: the server removes
// the reply subject of a service import with the first answer, and with a probe. A probe after
// the answer would find no subscription although the client is alive, and the answer after a
// probe would not arrive.
func usedUp(reply string) bool { return strings.HasPrefix(reply, subjects.Import+".") }

// end closes a grant that was not confirmed. It returns Heard if a confirmation came at
// the same time.
func (c *confirmations) end(subject string, waiting *unconfirmed) Outcome {
	if c.take(subject) != nil {
		return Unheard
	}
	return <-waiting.result
}

func (c *confirmations) take(subject string) *unconfirmed {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.open[subject]
	delete(c.open, subject)
	return waiting
}

// report has send ask the server whether the client of an open grant is gone.
func (c *confirmations) report(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.open[subject]; waiting != nil {
		select {
		case waiting.reported <- struct{}{}:
		default:
		}
	}
}

// receive handles confirmations, and the status 503 that the server sends when nothing is
// subscribed to the subject of a grant. Other clients may publish to that subject, too, if
// they may receive the grant, so the status is only a hint.
func (c *confirmations) receive(m *nats.Msg) {
	if isNoResponders(m) {
		c.report(m.Subject)
		return
	}
	if !c.sender.MayAnswer(m.Reply) {
		return // the grant stays open: this confirmation cannot be answered
	}
	waiting := c.take(m.Subject)
	if waiting != nil {
		waiting.result <- Heard
	}
	if m.Reply != "" {
		_ = c.answer(m.Reply, waiting != nil) // without an answer the client holds nothing
	}
}

func (c *confirmations) answer(reply string, confirmed bool) error {
	answer := c.refused
	if confirmed {
		answer = c.confirmed
	}
	return c.nc.PublishMsg(&nats.Msg{Subject: reply, Header: answer.Header, Data: answer.Data})
}

func (c *confirmations) close() { _ = c.sub.Unsubscribe() }
