package client

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Register is like Store.Register.
func (c *Client) Register(ctx context.Context, pool uuid.UUID, count int, opts ...kvslots.Option) (kvslots.State, error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return kvslots.State{}, err
	}
	return c.state(ctx, request{Route: wire.RegisterPool, Params: wire.Params{Pool: pool, Count: count, Name: o.Name, RequestKey: o.RequestKey}})
}

// Inspect is like Store.Inspect.
func (c *Client) Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error) {
	return c.state(ctx, request{Route: wire.InspectPool, Params: wire.Params{Pool: pool}})
}

func (c *Client) state(ctx context.Context, r request) (state kvslots.State, err error) {
	err = c.ask(ctx, r, &state)
	return state, err
}

// Delete is like Store.Delete.
func (c *Client) Delete(ctx context.Context, pool uuid.UUID) error {
	return c.ask(ctx, request{Route: wire.DeletePool, Params: wire.Params{Pool: pool}}, new(wire.Deleted))
}

// Return is like Store.Return. It also returns true if a repeat finds that the lease has ended, since the answer to
// the request before it was lost.
func (c *Client) Return(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	var answer wire.Returned
	sent := 0
	err := c.repeatEach(ctx, returnOf(pool, lease), &answer, func() { sent++ })
	return err == nil && (answer.Returned || sent > 1), err
}

func returnOf(pool, lease uuid.UUID) request {
	return request{Route: wire.Return, Params: wire.Params{Pool: pool, LeaseID: lease}}
}

// Borrow is like Store.Borrow. If ctx ends first, the Client cancels the borrow: see
// "Cancellation" in the package comment.
func (c *Client) Borrow(ctx context.Context, pool uuid.UUID, opts ...kvslots.Option) (*kvslots.Lease, error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return nil, err
	}
	ttl, wait := o.Times()
	label := c.labelOr(o.Label)
	var lease *kvslots.Lease
	err := c.take(ctx, taking{
		wait: wait, key: o.RequestKey, uncounted: o.Uncounted,
		ask: func(ctx context.Context, t *taking) (err error) {
			var body wire.Lease
			r := t.request(wire.Borrow, wire.Params{Pool: pool, TTL: ttl, Label: label})
			r.Undo = func() request { return returnOf(pool, body.Lease) }
			lease, err = c.lease(ctx, &body, r)
			return err
		},
		undo: func(ctx context.Context) { _, _ = c.Return(ctx, pool, lease.ID()) },
	})
	if err != nil {
		return nil, err
	}
	if !o.Fixed {
		lease.KeepAlive()
	}
	return lease, nil
}

// Renew is like Store.Renew. The error is errors.ErrUnsupported if the server has no renewals
// over HTTP.
func (c *Client) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error) {
	if err := kvslots.CheckTimes(ttl, 0); err != nil {
		return nil, err
	}
	return c.lease(ctx, new(wire.Lease), request{Route: wire.RenewLease, Params: wire.Params{Pool: pool, LeaseID: lease, TTL: ttl}})
}

// maxTTL is longer than any gateway grants, and does not overflow a time.Duration.
const maxTTL = 366 * 24 * time.Hour

// lease sends a borrow or a renewal, and decodes the answer into body. The lease's time
// begins when the request was sent, plus the time for which the gateway says that the
// request waited. This is never later than the time from which the gateway counts,
// however slow the connection. An answer without that header counts as one without a
// wait.
func (c *Client) lease(ctx context.Context, body *wire.Lease, r request) (*kvslots.Lease, error) {
	sent := clock.Now()
	err := c.send(ctx, r, cmp.Or(c.timeout, answerTime), func(a answer) error {
		if json.Unmarshal(a.Body, body) != nil || body.Lease == uuid.Nil || body.ExpiresIn < 0 {
			return ErrNotUnderstood
		}
		body.Waited = waited(a, sent)
		return nil
	})
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(min(body.ExpiresIn, int64(maxTTL/time.Second))) * time.Second
	return kvslots.NewLease(c, r.Pool, body.Lease, body.Position, body.Fence, ttl, sent+body.Waited), nil
}
