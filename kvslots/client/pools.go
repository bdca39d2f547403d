package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Register does what Store.Register does.
func (c *Client) Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error) {
	return c.state(ctx, poolRegister, wire.PoolRequest{ID: &pool, Count: &count})
}

// Inspect does what Store.Inspect does.
func (c *Client) Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error) {
	return c.state(ctx, poolInspect, wire.PoolRequest{ID: &pool})
}

func (c *Client) state(ctx context.Context, op operation, body wire.PoolRequest) (kvslots.State, error) {
	var answer wire.Pool
	err := c.ask(ctx, request{operation: op, pool: body}, &answer)
	return kvslots.State{Count: answer.Count, InUse: answer.InUse, Waiting: answer.Waiting}, err
}

// Delete does what Store.Delete does.
func (c *Client) Delete(ctx context.Context, pool uuid.UUID) error {
	return c.ask(ctx, request{operation: poolDelete, pool: wire.PoolRequest{ID: &pool}}, new(wire.Deleted))
}

// Return does what Store.Return does.
func (c *Client) Return(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	return c.TryReturn(ctx, pool, lease)
}

// TryReturn does what Return does, for no longer than ctx lasts.
func (c *Client) TryReturn(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	var answer wire.Returned
	err := c.ask(ctx, returnOf(pool, lease), &answer)
	return answer.Returned, err
}

func returnOf(pool, lease uuid.UUID) request {
	return request{operation: poolReturn, pool: wire.PoolRequest{ID: &pool, Lease: &lease}}
}

// Borrow does what Store.Borrow does. If ctx ends first, the gateway is told: see
// "Giving up" in the package comment. A label does not reach the gateways: it is
// checked, and dropped.
func (c *Client) Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error) {
	if err := kvslots.CheckTimes(ttl, wait); err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if err := opt(&kvslots.BorrowOptions{}); err != nil {
			return nil, err
		}
	}
	var lease wire.Lease
	return c.lease(ctx, &lease, request{
		operation: poolBorrow, wait: wait,
		pool: wire.PoolRequest{ID: &pool, TTL: wire.Seconds(ttl), Wait: wire.Seconds(wait)},
		undo: func() request { return returnOf(pool, lease.Lease) },
	})
}

// Renew does what Store.Renew does. The error is errors.ErrUnsupported if the
// gateway is of a version without renewals over HTTP.
func (c *Client) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error) {
	if err := kvslots.CheckTimes(ttl, 0); err != nil {
		return nil, err
	}
	return c.lease(ctx, new(wire.Lease), request{
		operation: poolRenew,
		pool:      wire.PoolRequest{ID: &pool, Lease: &lease, TTL: wire.Seconds(ttl)},
	})
}

// maxTTL is beyond what any gateway grants, and no overflow.
const maxTTL = 366 * 24 * time.Hour

// lease sends a borrow or a renewal, and reads the answer into body. The lease's time
// is counted from when the request was sent, plus what the gateway says that it then
// waited: never later than the gateway counts it from, however long the way. A
// gateway that does not say is taken for one that did not wait.
func (c *Client) lease(ctx context.Context, body *wire.Lease, r request) (*kvslots.Lease, error) {
	sent := time.Now()
	err := c.gateways.ask(ctx, r, func(a answer) error {
		if json.Unmarshal(a.body, body) != nil || body.Lease == uuid.Nil || body.ExpiresIn < 0 {
			return ErrNotUnderstood
		}
		if ms, err := strconv.ParseUint(a.header.Get(wire.WaitedHeader), 10, 31); err == nil {
			body.Waited = min(time.Duration(ms)*time.Millisecond, time.Since(sent))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(min(body.ExpiresIn, int64(maxTTL/time.Second))) * time.Second
	return kvslots.NewLease(c, *r.pool.ID, body.Lease, body.Position, body.Fence, ttl, sent.Add(body.Waited)), nil
}
