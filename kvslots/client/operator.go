package client

import (
	"cmp"
	"context"
	"errors"
	"net/url"
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
	r := named(text, wire.ReadPool)
	r.ask("leases", 0)
	r.ask("line", 0)
	detail, err := c.detail(ctx, r.request())
	if err != nil {
		return kvslots.PoolRef{}, err
	}
	return kvslots.RefOf(&detail.Pool), nil
}

// ReadPool is like Store.ReadPool, but lists no more than 1,000 leases and 1,000 places; over NATS
// 100 of each.
func (c *Client) ReadPool(ctx context.Context, pool kvslots.PoolRef, page kvslots.DetailPage) (kvslots.PoolDetail, error) {
	page = page.OrFirst()
	r := about(pool, wire.ReadPool)
	for field, n := range map[string]int{
		"from": max(page.From, 0), "leases": min(max(page.MaxHolders, 0), maxRead),
		"after": max(page.After, 0), "line": min(max(page.MaxWaiters, 0), maxRead),
	} {
		r.ask(field, n)
	}
	return c.detail(ctx, r.request())
}

func (c *Client) detail(ctx context.Context, r request) (detail kvslots.PoolDetail, err error) {
	if err := c.ask(ctx, r, &detail); err != nil {
		return kvslots.PoolDetail{}, err
	}
	if detail.Hash.IsZero() {
		return kvslots.PoolDetail{}, ErrNotUnderstood
	}
	return detail, nil
}

// ReadPools is like Store.ReadPools. Over NATS it lists no more than 100 pools.
func (c *Client) ReadPools(ctx context.Context, q kvslots.PoolQuery) (pools []kvslots.PoolStats, next string, err error) {
	if q.Max < 1 || q.Max > kvslots.MaxPoolsRead {
		return nil, "", &kvslots.RangeError{Field: "max", Range: "between 1 and " + strconv.Itoa(kvslots.MaxPoolsRead)}
	}
	r := operation{Route: wire.ListPools, path: wire.ListPools.Path, fields: map[string]any{}, query: url.Values{}}
	r.ask("sort", wire.NameOf(q.Order))
	r.ask("limit", q.Max)
	r.ask("contended", q.Waiting)
	if q.After != "" {
		r.ask("after", q.After)
	}
	if q.Match != "" {
		r.ask("q", q.Match)
	}
	if q.Holder != "" {
		r.ask("holder", q.Holder)
	}
	var answer wire.PoolList
	if err := c.ask(ctx, r.request(), &answer); err != nil {
		return nil, "", err
	}
	if slices.ContainsFunc(answer.Pools, func(p kvslots.PoolStats) bool { return p.Hash.IsZero() }) {
		return nil, "", ErrNotUnderstood
	}
	return answer.Pools, answer.Next, nil
}

// Holder is like Store.Holder.
func (c *Client) Holder(ctx context.Context, pool, lease uuid.UUID) (h kvslots.HolderStats, err error) {
	err = c.ask(ctx, ofHolder(wire.ReadHolder, wire.PoolInHeader, wire.Request{ID: &pool, Lease: &lease}), &h)
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
	r := ofHolder(wire.ReadPlace, wire.PoolInHeader, wire.Request{ID: &pool})
	r.Key = requestKey
	err := c.ask(ctx, r, &answer)
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
	r := about(pool, wire.Evict)
	r.at(position)
	r.ask("fence", fence)
	var answer wire.Evicted
	err := c.ask(ctx, r.request(), &answer)
	return answer.Evicted, err
}

// TakeOut is like Store.TakeOut.
func (c *Client) TakeOut(ctx context.Context, pool kvslots.PoolRef, out kvslots.OutOfService, _ ...kvslots.Option) (kvslots.State, error) {
	return c.setOut(ctx, pool, out.Position, wire.OutOfServiceRequest{Out: true, Reason: out.Reason})
}

// PutBack is like Store.PutBack.
func (c *Client) PutBack(ctx context.Context, pool kvslots.PoolRef, position int, _ ...kvslots.Option) (kvslots.State, error) {
	return c.setOut(ctx, pool, position, wire.OutOfServiceRequest{})
}

func (c *Client) setOut(ctx context.Context, pool kvslots.PoolRef, position int, out wire.OutOfServiceRequest) (kvslots.State, error) {
	if position < kvslots.WholePool {
		return kvslots.State{}, &kvslots.RangeError{Field: "position", Range: "0 or more, and less than the pool's count"}
	}
	if position != kvslots.WholePool {
		r := about(pool, wire.SetOut)
		r.at(position)
		return c.change(ctx, r, out)
	}
	state, err := c.change(ctx, about(pool, wire.Pause), out)
	if name := pool.Key(); name != "" && errors.Is(err, kvslots.ErrNoPool) { // it is not in use, so the gateway has to know its name
		if _, err = c.FindPool(ctx, name); errors.Is(err, kvslots.ErrNoPool) {
			return c.change(ctx, named(name, wire.Pause), out)
		}
		return state, cmp.Or(err, error(&kvslots.RangeError{Field: "ref", Range: "in use, or not the public name of a pool"}))
	}
	return state, err
}

func (c *Client) change(ctx context.Context, r operation, out wire.OutOfServiceRequest) (kvslots.State, error) {
	r.body = out
	r.fields["out"], r.fields["reason"] = out.Out, out.Reason
	return c.state(ctx, r.request())
}

// SetLimit is like Store.SetLimit.
func (c *Client) SetLimit(ctx context.Context, pool kvslots.PoolRef, limit int, _ ...kvslots.Option) (kvslots.State, error) {
	r := about(pool, wire.SetLimit)
	r.body, r.fields["limit"] = wire.LimitRequest{Limit: limit}, limit
	return c.state(ctx, r.request())
}
