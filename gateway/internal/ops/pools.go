package ops

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Pools is the part of a *kvslots.Store that operations on pools use. Each method
// returns within a bounded time after its wait, even if its context does not end.
type Pools interface {
	kvslots.Operator
	Register(ctx context.Context, pool uuid.UUID, count int, opts ...kvslots.Option) (kvslots.State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, opts ...kvslots.Option) (*kvslots.Lease, error)
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Abandon(ctx context.Context, lease *kvslots.Lease) error
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error)
	ID() string // for wire.StoreHeader
}

// The operations on pools (gateway/README.md, "The Library API: /l").
var (
	Register = &Operation{Route: wire.RegisterPool, perform: register}
	Inspect  = &Operation{Route: wire.InspectPool, endsWithClient: true, perform: inspect}
	Delete   = &Operation{Route: wire.DeletePool, perform: remove}
	Borrow   = &Operation{Route: wire.Borrow, Grants: true, perform: borrow}
	Return   = &Operation{Route: wire.Return, perform: giveBack}
	Renew    = &Operation{Route: wire.RenewLease, perform: renew}
)

var OfPools = []*Operation{Register, Inspect, Delete, Borrow, Return, Renew}

func register(ctx context.Context, s *Service, call *Call) error {
	var state kvslots.State
	err := call.fromOrigin(kvslots.ErrMaxTombstones, func(origin string) (err error) {
		opts := []kvslots.Option{kvslots.WithOrigin(origin), kvslots.WithRequestKey(call.RequestKey)}
		if call.Name != nil {
			opts = append(opts, kvslots.WithName(*call.Name))
		}
		state, err = s.Pools.Register(ctx, call.Pool, call.Count, opts...)
		return err
	})
	call.Answer, call.outcome = wire.Pool{ID: call.Pool, State: state}, outcomeRegistered
	return err
}

func inspect(ctx context.Context, s *Service, call *Call) error {
	detail, err := s.Pools.ReadPool(ctx, kvslots.ByID(call.Pool), kvslots.DetailPage{MaxHolders: -1})
	call.Answer = wire.NewInspection(call.Pool, &detail)
	return err
}

func remove(ctx context.Context, s *Service, call *Call) error {
	call.Answer = wire.Deleted{Deleted: true}
	return s.Pools.Delete(ctx, call.Pool)
}

func borrow(ctx context.Context, s *Service, call *Call) error {
	lease, err := s.Pools.Borrow(ctx, call.Pool, call.options(s, call.TTL, call.placeOrigin()))
	if err == nil {
		call.setLease(lease)
		call.LeaseID, call.Queued, call.outcome = lease.ID(), lease.Queued(), outcomeGranted
		call.undo, call.keep = giveBack, abandon
		if lease.Resumed() {
			call.undo = abandon
		}
	}
	return err
}

// placeOrigin returns the origin for which a place in line counts that may be kept, or "".
func (c *Call) placeOrigin() string {
	if c.RequestKey != "" && c.Wait > 0 {
		for origin := range c.Origins() {
			return origin
		}
	}
	return ""
}

// options sets the options of a call that takes a slot. The others were checked when the request was read.
func (c *Call) options(s *Service, ttl time.Duration, origin string) kvslots.Option {
	wait := s.Lending.Clamp(c.Wait)
	return func(o *kvslots.Options) error {
		o.TTL, o.Fixed, o.Wait, o.Origin = ttl, true, &wait, origin
		o.RequestKey, o.Label = c.RequestKey, c.Label
		return kvslots.CheckTimes(ttl, wait)
	}
}

func abandon(ctx context.Context, s *Service, call *Call) error {
	call.setReturned(true)
	return s.Pools.Abandon(ctx, call.Lease)
}

func (c *Call) setLease(lease *kvslots.Lease) { c.Answer, c.Lease = wire.NewLease(lease), lease }

func giveBack(ctx context.Context, s *Service, call *Call) error {
	returned, err := s.Pools.Return(ctx, call.Pool, call.LeaseID)
	call.setReturned(returned)
	return err
}

func (c *Call) setReturned(returned bool) {
	c.Answer = wire.Returned{Returned: returned}
	if returned {
		c.outcome = outcomeReturned
	}
}

func renew(ctx context.Context, s *Service, call *Call) error {
	lease, err := s.Pools.Renew(ctx, call.Pool, call.LeaseID, call.TTL)
	if err == nil {
		call.setLease(lease)
		call.outcome = outcomeRenewed
	}
	return err
}
