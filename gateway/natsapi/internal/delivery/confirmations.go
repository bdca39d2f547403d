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

// confirmTimeout is how long a client may take to confirm a grant. It covers the slowest round trip between continents and a
// long pause of the client's process, since a client that is alive and late loses its turn.
const confirmTimeout = time.Second

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
	sender *Sender // asks the server, and decides which reply subjects are allowed
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
// Unheard; a later confirmation is refused then. It takes up to confirmTimeout, but only two
// round trips if nothing is subscribed to the grant's subject.
func (c *confirmations) send(ctx context.Context, grant *nats.Msg) Outcome {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	waiting := &unconfirmed{make(chan Outcome, 1), make(chan struct{}, 1)}
	grant.Reply = randomBelow(c.prefix)
	grant.Header.Set(wire.ConfirmHeader, strconv.FormatInt(confirmTimeout.Milliseconds(), 10))
	c.mu.Lock()
	c.open[grant.Reply] = waiting
	c.mu.Unlock()
	if c.nc.PublishMsg(grant) != nil {
		return c.end(grant.Reply, waiting)
	}
	for reported := waiting.reported; ; reported = nil { // a second report could only be a client's
		select {
		case what := <-waiting.result:
			return what
		case <-ctx.Done():
			return c.end(grant.Reply, waiting)
		case <-reported:
			if !c.sender.Listens(grant.Subject) {
				return c.end(grant.Reply, waiting)
			}
		}
	}
}

// usedUp reports whether a reply subject reaches its client only once: the server removes
// the reply subject of a service import with the first answer, and with a probe. The answer after a
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
