package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

var _ kvslots.Operator = (*Client)(nil)

// The methods of an operator. They ignore the options: the gateway knows the caller by its token. Over HTTP
// they name a pool by its hash; over NATS by its id, and for a read a lock or a semaphore by its name, so that gateways with a
// token do not require it.

const maxRead = 1000

// FindPool is like Store.FindPool.
func (c *Client) FindPool(ctx context.Context, text string) (kvslots.PoolRef, error) {
	if text == "" {
		return kvslots.PoolRef{}, kvslots.ErrNoPool
	}
	detail, err := c.detail(ctx, &wire.OperatorParams{Find: text})
	if err != nil {
		return kvslots.PoolRef{}, err
	}
	return kvslots.RefOf(&detail.Pool), nil
}

// ReadPool is like Store.ReadPool, but lists no more than 1,000 leases and 1,000 places; over NATS
// 100 of each.
func (c *Client) ReadPool(ctx context.Context, pool kvslots.PoolRef, page kvslots.DetailPage) (kvslots.PoolDetail, error) {
	page = page.OrFirst()
	page.From, page.After = max(page.From, 0), max(page.After, 0)
	page.MaxHolders, page.MaxWaiters = min(max(page.MaxHolders, 0), maxRead), min(max(page.MaxWaiters, 0), maxRead)
	return c.detail(ctx, &wire.OperatorParams{Pool: pool, Page: page})
}

func (c *Client) detail(ctx context.Context, of *wire.OperatorParams) (detail kvslots.PoolDetail, err error) {
	if err := c.ask(ctx, operation(wire.ReadPool, of), &detail); err != nil {
		return kvslots.PoolDetail{}, err
	}
	if detail.Hash.IsZero() {
		return kvslots.PoolDetail{}, ErrNotUnderstood
	}
	return detail, nil
}

func operation(to wire.Route, p *wire.OperatorParams) request {
	return request{Route: to, Params: wire.Params{Operator: p}}
}

// ReadPools is like Store.ReadPools. Over NATS it lists no more than 100 pools.
func (c *Client) ReadPools(ctx context.Context, q kvslots.PoolQuery) (pools []kvslots.PoolStats, next string, err error) {
	if q.Max < 1 || q.Max > kvslots.MaxPoolsRead {
		return nil, "", &kvslots.RangeError{Field: "max", Range: "between 1 and " + strconv.Itoa(kvslots.MaxPoolsRead)}
	}
	var answer wire.PoolList
	if err := c.ask(ctx, operation(wire.ListPools, &wire.OperatorParams{Query: q}), &answer); err != nil {
		return nil, "", err
	}
	if slices.ContainsFunc(answer.Pools, func(p kvslots.PoolStats) bool { return p.Hash.IsZero() }) {
		return nil, "", ErrNotUnderstood
	}
	return answer.Pools, answer.Next, nil
}

// Holder is like Store.Holder.
func (c *Client) Holder(ctx context.Context, pool, lease uuid.UUID) (h kvslots.HolderStats, err error) {
	err = c.ask(ctx, request{Route: wire.ReadHolder, Params: wire.Params{Pool: pool, LeaseID: lease}}, &h)
	return h, err
}

// PlaceOf is like Store.PlaceOf.
func (c *Client) PlaceOf(ctx context.Context, pool uuid.UUID, requestKey string) (kvslots.WaiterStats, *kvslots.HolderStats, error) {
	var o kvslots.Options
	if err := kvslots.WithRequestKey(requestKey)(&o); err != nil {
		return kvslots.WaiterStats{}, nil, err
	}
	if requestKey == "" {
		return kvslots.WaiterStats{}, nil, kvslots.ErrNotInLine
	}
	var answer wire.Place
	err := c.ask(ctx, request{Route: wire.ReadPlace, Params: wire.Params{Pool: pool, RequestKey: requestKey}}, &answer)
	switch {
	case err != nil:
		return kvslots.WaiterStats{}, nil, err
	case answer.Lease != nil:
		return kvslots.WaiterStats{}, answer.Lease, nil
	case answer.Waiting != nil:
		return *answer.Waiting, nil, nil
	}
	return kvslots.WaiterStats{}, nil, ErrNotUnderstood
}

// Evict is like Store.Evict.
func (c *Client) Evict(ctx context.Context, pool kvslots.PoolRef, position int, fence uint64, _ ...kvslots.Option) (kvslots.HolderStats, error) {
	if position < 0 || fence == 0 {
		return kvslots.HolderStats{}, kvslots.ErrNotHeld
	}
	var answer wire.Evicted
	err := c.ask(ctx, operation(wire.Evict, &wire.OperatorParams{Pool: pool, Position: position, Fence: fence}), &answer)
	return answer.Evicted, err
}

// TakeOut is like Store.TakeOut.
func (c *Client) TakeOut(ctx context.Context, pool kvslots.PoolRef, out kvslots.OutOfService, _ ...kvslots.Option) (kvslots.State, error) {
	return c.setOut(ctx, &wire.OperatorParams{Pool: pool, Position: out.Position, Out: true, Reason: out.Reason})
}

// PutBack is like Store.PutBack.
func (c *Client) PutBack(ctx context.Context, pool kvslots.PoolRef, position int, _ ...kvslots.Option) (kvslots.State, error) {
	return c.setOut(ctx, &wire.OperatorParams{Pool: pool, Position: position})
}

func (c *Client) setOut(ctx context.Context, p *wire.OperatorParams) (kvslots.State, error) {
	if p.Position < kvslots.WholePool {
		return kvslots.State{}, &kvslots.RangeError{Field: "position", Range: "0 or more, and less than the pool's count"}
	}
	if p.Position != kvslots.WholePool {
		return c.state(ctx, operation(wire.SetOut, p))
	}
	state, err := c.state(ctx, operation(wire.Pause, p))
	if name := p.Pool.Key(); name != "" && errors.Is(err, kvslots.ErrNoPool) { // it is not in use, so the gateway has to know its name
		if _, err = c.FindPool(ctx, name); errors.Is(err, kvslots.ErrNoPool) {
			p.Find = name
			return c.state(ctx, operation(wire.Pause, p))
		}
		return state, cmp.Or(err, error(&kvslots.RangeError{Field: "ref", Range: "in use, or not the public name of a pool"}))
	}
	return state, err
}

// SetLimit is like Store.SetLimit.
func (c *Client) SetLimit(ctx context.Context, pool kvslots.PoolRef, limit int, _ ...kvslots.Option) (kvslots.State, error) {
	r := operation(wire.SetLimit, &wire.OperatorParams{Pool: pool})
	r.Limit = limit
	return c.state(ctx, r)
}
