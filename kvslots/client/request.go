package client

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type (
	request = transport.Request
	answer  = transport.Answer
)

// send sends a request whose gateway may take a time to answer, in addition to the request's wait.
func (c *Client) send(ctx context.Context, r request, timeout time.Duration, read func(answer) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := answerTimeout(ctx, r.Wait+timeout)
	defer cancel()
	return c.gateways.Ask(ctx, r, read)
}

// answerTimeout returns a context with a timeout: ctx itself if that ends before.
func answerTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded && time.Until(deadline) <= timeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, ErrAnswerTimeout)
}

// ask sends a request once, and decodes its answer.
func (c *Client) ask(ctx context.Context, r request, into any) error {
	return c.send(ctx, r, cmp.Or(c.timeout, kvslots.ReturnTimeout), func(a answer) error { return a.Decode(into) })
}

var empty = []byte("{}")

// waited returns for how long the gateway says that the request waited, which was sent at a time of package
// clock.
func waited(a answer, sent time.Duration) time.Duration {
	ms, _ := strconv.ParseUint(a.Header.Get(wire.WaitedHeader), 10, 31)
	if ms == 0 {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, clock.Now()-sent)
}
