package natsapi

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// borrow answers kvslots.borrow (README.md, "Subjects").
func (s *Service) borrow(r *request) {
	if r.reply == "" {
		return // nobody could ever return the lease
	}
	pool, name, lease, err := s.wait(r)
	if err != nil {
		s.answer(r, nil, err)
		return
	}
	s.hand(r, name, lent{s.pools, pool, lease.ID()}, wire.NewLease(lease), r.waited(lease))
}

// lent is a slot of a pool that was handed out.
type lent struct {
	pools    Pools
	pool, id uuid.UUID
}

func (l lent) takeBack(ctx context.Context) error {
	_, err := l.pools.Return(ctx, l.pool, l.id)
	return err
}

// wait borrows, for as long as slots are lent at all and nobody cancels it.
func (s *Service) wait(r *request) (pool uuid.UUID, name string, lease *kvslots.Lease, err error) {
	if pool, err = wire.ParsePoolID(r.body); err != nil {
		return pool, "", nil, err
	}
	request, err := wire.ParseBorrow(r.body)
	if err != nil {
		return pool, "", nil, err
	}
	if name, err = r.name(); err != nil {
		return pool, "", nil, err
	}
	if err = r.readConfirms(); err != nil {
		return pool, "", nil, err
	}
	r.drop()
	ctx, end := s.lending.Begin(s.ctx)
	defer end()
	ctx, done := s.requests.begin(ctx, name)
	defer done()
	if ctx.Err() != nil {
		return pool, name, nil, context.Cause(ctx)
	}
	if lease, err = s.pools.Borrow(ctx, pool, request.TTL, request.Wait); err == nil {
		r.queued = lease.Queued()
	}
	return pool, name, lease, err
}

// hand gives a lease to its requester. When that one has gone, or has cancelled
// meanwhile, nobody knows the lease's id, so it goes back at once, to the next
// in line. promised is what wire.WaitedHeader says, if anything.
func (s *Service) hand(r *request, name string, lease granted, terms any, promised string) {
	if !s.requests.grant(name, lease) {
		s.takeBack(lease)
		s.answer(r, nil, context.Canceled)
		return
	}
	message, err := r.success(terms)
	if err != nil {
		s.takeBack(lease)
		s.answer(r, nil, err)
		return
	}
	if promised != "" {
		setHeader(message, wire.WaitedHeader, promised)
	}
	switch s.deliver(r, message) {
	case heard:
		r.count.done(r.arrived)
	case unheard:
		s.log.Debug().Msg("a borrower was gone when its turn came, or did not confirm")
		s.takeBack(lease)
	case unknown: // whoever heard it holds it, so it must not be lent again
		s.log.Warn().Msg("whether a borrower heard its answer is not known; an unheard lease ends by its ttl")
	}
}

// deliver sends a grant. The requester of one that was waited for may have died
// meanwhile, without the server having noticed. Sending first and asking the server
// afterwards is no way out for those that do not confirm: when their reply subject
// has no subscription any more, they may have got the grant and have ended the
// subscription for that, and would lose what they hold.
//
// A requester that dies while it is granted a free slot is not told from one that
// dies as soon as it holds it, so that is not waited for, however busy the machine.
func (s *Service) deliver(r *request, grant *nats.Msg) outcome {
	switch {
	case !r.queued && time.Since(r.arrived) <= quickGrant:
		return s.deliveries.send(grant)
	case r.confirms:
		return s.confirmations.send(s.ctx, grant)
	}
	s.deliveries.settle()
	return s.deliveries.send(grant)
}

// takeBack returns a lease that its requester was not told of. It may be over already, when its
// requester has cancelled it, or the session has ended.
func (s *Service) takeBack(lease granted) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), carryOutTimeout)
	defer cancel()
	err := lease.takeBack(ctx)
	if err != nil && !errors.Is(err, kvslots.ErrNotHeld) && !errors.Is(err, kvslots.ErrSessionGone) {
		s.log.Warn().Err(err).Msg("a lease whose borrower is gone could not be returned; it ends by its ttl")
	}
}

// giveBack answers kvslots.return (README.md, "Subjects").
func (s *Service) giveBack(ctx context.Context, r *request) (any, error) {
	id, err := wire.ParsePoolID(r.body)
	if err != nil {
		return nil, err
	}
	request, err := wire.ParseReturn(r.body)
	if err != nil {
		return nil, err
	}
	returned, err := s.pools.Return(ctx, id, request.Lease)
	if err != nil {
		return nil, err
	}
	return wire.Returned{Returned: returned}, nil
}

// renew answers kvslots.renew. The body is that of a return with a ttl, the
// answer that of a borrow.
func (s *Service) renew(ctx context.Context, r *request) (any, error) {
	id, err := wire.ParsePoolID(r.body)
	if err != nil {
		return nil, err
	}
	request, err := wire.ParseRenew(r.body)
	if err != nil {
		return nil, err
	}
	lease, err := s.pools.Renew(ctx, id, request.Lease, request.TTL)
	if err != nil {
		return nil, err
	}
	r.promised = r.waited(lease)
	return wire.NewLease(lease), nil
}
