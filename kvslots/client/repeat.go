package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// longestAsk bounds the wait of one request. A gateway that dies is noticed when that time and the
	// time for its answer are over.
	longestAsk = time.Minute

	// answerTime is how long a gateway may take to answer a request that is repeated, in addition to the
	// request's wait: see Config.Timeout.
	answerTime = 2500 * time.Millisecond

	// firstPause is the pause after the first error. Each further one is twice as long, up
	// to longestPause, unless the gateway asks for another.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second

	// forever is longer than any wait, and can be added to a time.
	forever = time.Duration(1 << 62)
)

// Temporary reports whether the same call may succeed later, although the error says that this
// one has failed: no gateway has answered, or one is overloaded, stopping, or without its
// store, or a limit is reached.
func Temporary(err error) bool {
	refused, ok := errors.AsType[*wire.Refusal](err)
	if !ok {
		return unanswered(err) || errors.Is(err, ErrUnconfirmed)
	}
	return slices.Contains([]int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusInsufficientStorage, wire.StatusClientGone,
	}, refused.Status)
}

func unanswered(err error) bool {
	_, ok := errors.AsType[*Unanswered](err)
	return ok
}

// attempts are the requests of one call, until one succeeds.
type attempts struct {
	client *Client
	pause  time.Duration // the last one
}

// again waits until it is time for another request after err. It reports whether to send one: not if no
// time is left for it, or less than the gateway asks for.
func (a *attempts) again(ctx context.Context, err error, left time.Duration) bool {
	pause := a.next(err)
	if left <= 0 || retryAfter(err) > left || ctx.Err() != nil {
		return false
	}
	if a.client.retrying != nil {
		a.client.retrying(err)
	}
	return clock.Sleep(ctx, min(pause, left))
}

// next returns the pause after err: what the gateway asks for, or up to twice the last one. Its
// length is random, so that many clients do not come back at the same time.
func (a *attempts) next(err error) time.Duration {
	a.pause = min(max(2*a.pause, firstPause), longestPause)
	return cmp.Or(retryAfter(err), a.pause/2+rand.N(a.pause/2))
}

func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return refused.RetryAfter
	}
	return 0
}

// repeat sends a request, which may be sent several times, until a gateway has answered: for
// Config.Timeout, or until the deadline of ctx, or for answerTime.
func (c *Client) repeat(ctx context.Context, r request, into any) error {
	return c.repeatEach(ctx, r, into, func() {})
}

// repeatEach is repeat, and calls each before a request is sent.
func (c *Client) repeatEach(ctx context.Context, r request, into any, each func()) error {
	lasts := answerTime
	if deadline, bounded := ctx.Deadline(); bounded {
		lasts = time.Until(deadline)
	}
	lasts = cmp.Or(c.timeout, lasts)
	within, cancel := answerTimeout(ctx, lasts)
	defer cancel()
	until, _ := within.Deadline()
	a := attempts{client: c}
	var last error
	for {
		each()
		err := c.send(within, r, cmp.Or(c.timeout, answerTime), func(answer answer) error { return answer.Decode(into) })
		switch {
		case err == nil, errors.Is(ctx.Err(), context.Canceled):
			return err
		case within.Err() != nil:
			return cmp.Or(last, err)
		case !Temporary(err) || !a.again(within, err, time.Until(until)):
			return err
		}
		last = err
	}
}

// taking is one call that takes a slot. It may need several requests.
type taking struct {
	attempts
	// ask sends a request.
	ask func(ctx context.Context, t *taking) error
	// undo gives back what ask was granted.
	undo func(ctx context.Context)

	wait    time.Duration
	until   time.Duration // by package clock: when the last request may be sent
	key     string
	given   bool          // the key is the caller's
	asked   time.Duration // the wait of the request
	unknown []string      // ids of requests over NATS that may be granted yet

	uncounted bool // the request is not the last one of the caller's wait, or leaves the line
}

// request returns a request, which appends its id to unknown if its outcome is unknown.
func (t *taking) request(to wire.Route, p wire.Params) request {
	p.Wait, p.RequestKey, p.Uncounted = t.asked, t.key, t.uncounted
	return request{Route: to, Params: p, Unknown: &t.unknown}
}

// take sends requests with a request key, and with what is left of the wait, until one succeeds,
// the wait is over, or one fails for good. A gateway that does not answer has answerTime more.
func (c *Client) take(ctx context.Context, t taking) error {
	t.client, t.given, t.wait = c, t.key != "", min(t.wait, forever)
	sent := clock.Now()
	t.until = sent + t.wait
	uncounted := t.uncounted
	grace := cmp.Or(c.timeout, answerTime)
	within, cancel := answerTimeout(ctx, t.wait+grace)
	defer cancel()
	var last error
	for ; ; sent = clock.Now() {
		if t.key == "" {
			t.key = uuid.NewString()
		}
		left := t.until - sent
		t.asked = min(max(left, 0), longestAsk) // in whole seconds, rounded up: 0 leaves the line
		t.uncounted = uncounted || left > longestAsk || left <= 0 && t.wait > 0
		err := t.ask(within, &t)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			t.leave(ctx)
			return context.Cause(ctx)
		case within.Err() != nil && last != nil:
			err = last
		case within.Err() == nil && t.asksAgain(within, err, sent, grace):
			last = err
			continue
		case ctx.Err() != nil: // during the pause
			continue
		}
		c.gateways.Cancel(t.unknown)
		return err
	}
}

// asksAgain waits until it is time for another request after err. It reports whether to send one.
func (t *taking) asksAgain(ctx context.Context, err error, sent, grace time.Duration) bool {
	now := clock.Now()
	left := t.until - now
	if taken, ok := errors.AsType[*kvslots.TakenError](err); ok && taken.Paused && left > 0 && t.client.retrying != nil {
		t.client.retrying(err)
	}
	switch {
	case errors.Is(err, kvslots.ErrNoSlot) && left <= 0:
		// The place in line is kept for a repeat. One without a wait leaves the line.
		return t.asked > 0 && !t.given
	case errors.Is(err, kvslots.ErrNoSlot) && now-sent >= time.Second: // the gateway has waited, and keeps the place in line
		t.pause = 0
		return true
	case errors.Is(err, kvslots.ErrNoSlot):
		return clock.Sleep(ctx, min(t.next(err), left))
	case !Temporary(err):
		return false
	case errors.Is(err, ErrUnconfirmed) && !t.given:
		t.key = "" // the client has given up what was granted for the old one
	case unanswered(err):
		left += grace
	}
	return t.again(ctx, err, left)
}

// leaveTime bounds leave, for which a caller waits whose context has ended.
const leaveTime = time.Second

// leave gives up the place in line, or the grant, that a gateway keeps for a client that may
// come back: a repeat without a wait does. A caller whose cause is kvslots.ErrPlaceKept comes back itself, and
// one whose cause is ErrAnswerTimeout has waited long enough for gateways.
func (t *taking) leave(ctx context.Context) {
	cause := context.Cause(ctx)
	if t.client.gateways.Cancel(t.unknown) || errors.Is(cause, kvslots.ErrPlaceKept) || errors.Is(cause, ErrAnswerTimeout) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if t.asked, t.uncounted = 0, true; t.ask(ctx, t) == nil {
		t.undo(kvslots.ReturnWithin(ctx))
	}
}
