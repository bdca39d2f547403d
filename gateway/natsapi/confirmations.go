package natsapi

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const (
	// confirmTimeout is how long a requester may take to confirm a grant. It
	// spans the slowest round trip between continents and a long pause of the
	// requester's process, since a requester that is alive and late loses its
	// turn. One that died is found out sooner, by a probe.
	confirmTimeout = time.Second

	// firstProbe is when the server is first asked whether an unconfirmed
	// grant's reply subject still has a subscription. It is a little longer than
	// what the server needs to notice a closed socket; see deathNotice. Each
	// further probe waits twice as long as the one before.
	firstProbe = 5 * time.Millisecond
)

// confirmations sends grants whose requesters confirm them.
//
// The grant names a subject of its own as its reply subject, which only its
// requester sees. The requester sends an empty request there, and holds what was
// granted when that has been answered without an error. So both sides know: a
// grant that was not confirmed in time goes to the next in line, and a
// confirmation that comes later is refused. That the requester waits for the
// answer is what makes it safe to take a grant back without knowing whether it
// arrived.
type confirmations struct {
	nc         *nats.Conn
	deliveries *deliveries // probes reply subjects
	replies    *replies    // of the confirmations
	prefix     string      // of this gateway's subjects
	sub        *nats.Subscription

	confirmed, refused *nats.Msg // answers to confirmations, but for the subject

	mu   sync.Mutex
	open map[string]chan outcome // by subject
}

func newConfirmations(nc *nats.Conn, d *deliveries, r *replies) (c *confirmations, err error) {
	c = &confirmations{
		nc: nc, deliveries: d, replies: r,
		prefix: subjects.Confirm + randomWord() + ".",
		open:   map[string]chan outcome{},
	}
	answer := &request{}
	if c.confirmed, err = answer.message(wire.Empty{}); err != nil {
		return nil, err
	}
	if c.refused, err = answer.failure(wire.StatusOf(kvslots.ErrNotHeld)); err != nil {
		return nil, err
	}
	c.sub, err = nc.Subscribe(c.prefix+"*", c.hear)
	return c, err
}

// send publishes a grant and returns heard when it was confirmed, otherwise
// unheard: then the requester has been told, or will be, that it holds nothing. It
// takes up to confirmTimeout; a requester that is gone is noticed in milliseconds.
func (c *confirmations) send(ctx context.Context, grant *nats.Msg) outcome {
	told := make(chan outcome, 1)
	grant.Reply = randomBelow(c.prefix)
	setHeader(grant, wire.ConfirmHeader, strconv.FormatInt(confirmTimeout.Milliseconds(), 10))
	c.mu.Lock()
	c.open[grant.Reply] = told
	c.mu.Unlock()
	if c.nc.PublishMsg(grant) != nil {
		return c.end(grant.Reply, told)
	}
	began, pause := time.Now(), firstProbe
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case what := <-told:
			return what
		case <-ctx.Done():
			return c.end(grant.Reply, told)
		case <-timer.C:
		}
		if time.Since(began) >= confirmTimeout || !usedUp(grant.Subject) && c.deliveries.listens(grant.Subject) == unheard {
			return c.end(grant.Reply, told)
		}
		pause *= 2
		timer.Reset(min(pause, confirmTimeout-time.Since(began)))
	}
}

// usedUp reports whether a reply subject leads to its requester once only: a service
// import forgets it with the first answer, and a probe that follows would find no
// subscription though the requester is alive.
func usedUp(reply string) bool { return strings.HasPrefix(reply, subjects.Import+".") }

// end closes a grant that was not confirmed. A confirmation that came in the same
// instant counts.
func (c *confirmations) end(subject string, told chan outcome) outcome {
	if c.take(subject) != nil {
		return unheard
	}
	return <-told
}

// take removes an open grant; nil means that it is closed.
func (c *confirmations) take(subject string) (told chan outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told = c.open[subject]
	delete(c.open, subject)
	return told
}

// hear takes confirmations, and what the server sends when nothing is subscribed to
// a grant's own subject: a status 503.
func (c *confirmations) hear(m *nats.Msg) {
	if isNoResponders(m) {
		if told := c.take(m.Subject); told != nil {
			told <- unheard
		}
		return
	}
	if !c.replies.mayGoTo(m.Reply) {
		return // the grant stays open: this confirmation cannot be answered
	}
	told := c.take(m.Subject)
	if told != nil {
		told <- heard
	}
	if m.Reply != "" {
		_ = c.answer(m.Reply, told != nil) // without an answer the requester holds nothing, and says so
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
