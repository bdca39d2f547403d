package ops

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Pools is what the operations on pools ask; *kvslots.Store is one. Each method ends
// within a bounded time, beyond the wait that it is asked for, whatever its context.
type Pools interface {
	Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error)
	Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error)
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error)
}

// The operations on pools (gateway/README.md, "The Library API: /l").
var (
	Register = &Operation{Subject: subjects.PoolRegister, family: &ofPool, read: readRegister, do: register}
	Inspect  = &Operation{Subject: subjects.PoolInspect, family: &ofPool, quits: true, do: inspect}
	Delete   = &Operation{Subject: subjects.PoolDelete, family: &ofPool, do: remove}
	Borrow   = &Operation{Subject: subjects.PoolBorrow, family: &ofPool, Grants: true, read: readBorrow, do: borrow}
	Return   = &Operation{Subject: subjects.PoolReturn, family: &ofPool, read: readReturn, do: giveBack}
	Renew    = &Operation{Subject: subjects.PoolRenew, family: &ofPool, read: readRenew, do: renew}
)

// OfPools are the operations on pools.
var OfPools = []*Operation{Register, Inspect, Delete, Borrow, Return, Renew}

var ofPool = family{
	StatusOf: wire.StatusOf,
	Parse:    wire.ParseLax,
	locate: func(call Call, body wire.Fields) (_ Call, err error) {
		call.Pool, err = body.Pool()
		return call, err
	},
}

func readRegister(call Call, body wire.Fields) (_ Call, err error) {
	call.count, err = body.Register()
	return call, err
}

func register(ctx context.Context, s *Service, call Call) (Outcome, error) {
	state, err := s.Pools.Register(ctx, call.Pool, call.count)
	return described(call, state, err)
}

func inspect(ctx context.Context, s *Service, call Call) (Outcome, error) {
	state, err := s.Pools.Inspect(ctx, call.Pool)
	return described(call, state, err)
}

func described(call Call, state kvslots.State, err error) (Outcome, error) {
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Answer: wire.NewPool(call.Pool, state)}, nil
}

func remove(ctx context.Context, s *Service, call Call) (Outcome, error) {
	return Outcome{Answer: wire.Deleted{Deleted: true}}, s.Pools.Delete(ctx, call.Pool)
}

func readBorrow(call Call, body wire.Fields) (Call, error) {
	claim, err := body.Borrow()
	call.ttl, call.wait = claim.TTL, claim.Wait
	return call, err
}

func borrow(ctx context.Context, s *Service, call Call) (Outcome, error) {
	lease, err := s.Pools.Borrow(ctx, call.Pool, call.ttl, call.wait)
	if err != nil {
		return Outcome{}, err
	}
	outcome := leased(lease)
	call.lease = lease.ID()
	outcome.Queued, outcome.undo, outcome.call = lease.Queued(), giveBack, call
	return outcome, nil
}

func leased(lease *kvslots.Lease) Outcome {
	return Outcome{Answer: wire.NewLease(lease), Lease: lease}
}

func readReturn(call Call, body wire.Fields) (_ Call, err error) {
	call.lease, err = body.Return()
	return call, err
}

func giveBack(ctx context.Context, s *Service, call Call) (Outcome, error) {
	returned, err := s.Pools.Return(ctx, call.Pool, call.lease)
	return Outcome{Answer: wire.Returned{Returned: returned}}, err
}

func readRenew(call Call, body wire.Fields) (_ Call, err error) {
	call.lease, call.ttl, err = body.RenewLease()
	return call, err
}

func renew(ctx context.Context, s *Service, call Call) (Outcome, error) {
	lease, err := s.Pools.Renew(ctx, call.Pool, call.lease, call.ttl)
	if err != nil {
		return Outcome{}, err
	}
	return leased(lease), nil
}
