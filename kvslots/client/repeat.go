package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// longestAsk bounds the wait of one request. A gateway that dies over NATS is noticed
	// when that time and answerTimeout are over.
	longestAsk = time.Minute

	// repeatGrace is how long a call without a wait is repeated after a lost answer.
	repeatGrace = 3 * time.Second

	// firstPause is the pause after the first error. Each further one is twice as long, up
	// to longestPause, unless the gateway asks for another.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Once returns a Client with the same connections, each of whose calls sends one request: for
// programs that repeat calls themselves. A wait may end early then, with kvslots.ErrNoSlot: see
// kvslots.Config.MaxWait. Closing it closes c.
func (c *Client) Once() *Client { return &Client{gateways: c.gateways, once: true} }

// Temporary reports whether the same call may succeed later, although the error says that this
// one has failed: no gateway has answered, or one is overloaded, stopping, or without its
// store. A limit that has been reached is not temporary, unless the gateway says when to try
// again.
func Temporary(err error) bool {
	refused, ok := errors.AsType[*wire.Refusal](err)
	if !ok {
		_, ok = errors.AsType[*Unanswered](err)
		return ok || errors.Is(err, ErrUnconfirmed)
	}
	known := refused.Err != nil && !errors.Is(refused.Err, kvslots.ErrUnavailable)
	return slices.Contains([]int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, wire.StatusClientGone,
	}, refused.Status) && (!known || refused.RetryAfter > 0)
}

// taking is one call that takes a slot. It may need several requests.
type taking struct {
	*Client
	// ask sends a request. It appends its id to unknown if its outcome is unknown.
	ask func(ctx context.Context, wait time.Duration, key string, unknown *[]string) error
	// undo gives back what ask was granted.
	undo func(ctx context.Context)

	wait    time.Duration
	until   time.Time // when the wait is over
	key     string
	given   bool          // the key is the caller's
	asked   time.Duration // the wait of the last request
	pause   time.Duration
	unknown []string // ids of requests over NATS that may be granted yet
}

// take sends requests with a request key, and with what is left of the wait, until one succeeds,
// the wait is over, or one fails for good.
func (c *Client) take(ctx context.Context, t taking) error {
	t.Client, t.given = c, t.key != ""
	if c.once {
		return t.once(ctx)
	}
	t.until = time.Now().Add(t.wait)
	for {
		if t.key == "" {
			t.key = uuid.NewString()
		}
		sent := time.Now()
		t.asked = t.left(sent)
		err := t.ask(ctx, t.asked, t.key, &t.unknown)
		if err == nil {
			return nil
		}
		if !t.again(ctx, err, sent) {
			if canceled := c.gateways.cancel(t.unknown); !canceled && !t.given && ctx.Err() != nil {
				t.leave(ctx)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// once sends one request. What may be granted yet is canceled, unless the caller can repeat the
// request with its own key.
func (t *taking) once(ctx context.Context) error {
	key := t.key
	if _, several := t.gateways.(*servers); several && key == "" {
		key = uuid.NewString() // the request is repeated at the next server
	}
	err := t.ask(ctx, t.wait, key, &t.unknown)
	if _, unanswered := errors.AsType[*Unanswered](err); !t.given || !unanswered {
		t.gateways.cancel(t.unknown)
	}
	return err
}

// leaveTimeout bounds leave, for which a caller waits whose context has ended.
const leaveTimeout = time.Second

// leave gives up the place in line, or the grant, that a gateway keeps for a client that may
// come back: a repeat without a wait does.
func (t *taking) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if t.ask(ctx, 0, t.key, &t.unknown) == nil {
		t.undo(ctx)
	}
}

// left returns the wait to ask a gateway for, which waits for whole seconds.
func (t *taking) left(now time.Time) time.Duration {
	return min(max(t.until.Sub(now), 0), longestAsk)
}

// again waits until it is time for another request after err. It reports whether to send one.
func (t *taking) again(ctx context.Context, err error, sent time.Time) bool {
	now, until := time.Now(), t.until
	_, unanswered := errors.AsType[*Unanswered](err)
	switch {
	case errors.Is(err, ErrUnconfirmed) && !t.given:
		t.key = "" // the client has given up what was granted for the old one
	case errors.Is(err, kvslots.ErrNoSlot) && !now.Before(until):
		// The place in line is kept for a repeat. One without a wait leaves the line.
		return t.asked > 0 && !t.given && ctx.Err() == nil
	case errors.Is(err, kvslots.ErrNoSlot):
		if now.Sub(sent) > longestPause { // the gateway has waited, and keeps the place in line
			t.pause = 0
			return ctx.Err() == nil
		}
	case unanswered:
		until = later(until, t.until.Add(repeatGrace-t.wait))
	case !Temporary(err):
		return false
	}
	left := until.Sub(now)
	return left > 0 && sleep(ctx, min(t.next(err), left))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// next returns the pause after err: what the gateway asks for, or up to twice the last one. Its
// length is random, so that many clients do not come back at the same time.
func (t *taking) next(err error) time.Duration {
	t.pause = min(max(2*t.pause, firstPause), longestPause)
	if refused, ok := errors.AsType[*wire.Refusal](err); ok && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return t.pause/2 + rand.N(t.pause/2)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
