package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// OfResources are all operations on locks and semaphores (gateway/README.md, "The
// dflockd API: /v1").
var OfResources = append(ofKind(kvslots.KindLock), ofKind(kvslots.KindSemaphore)...)

func ofKind(kind kvslots.Kind) []*Operation {
	named := func(name string, op Operation) *Operation {
		op.Route, op.inTurn = wire.ResourceRoute(kind, name), op.Grants // releases and renewals are not held up
		return &op
	}
	return []*Operation{
		named(subjects.Acquire, Operation{Grants: true, perform: acquire}),
		named(subjects.Enqueue, Operation{Grants: true, perform: enqueue}),
		named(subjects.Wait, Operation{Grants: true, leavesLine: true, perform: wait}),
		named(subjects.Release, Operation{perform: release}),
		named(subjects.Renew, Operation{perform: renewGrant}),
	}
}

// OfResource returns one of OfResources. Package subjects names it.
func OfResource(kind kvslots.Kind, name string) *Operation {
	subject := wire.ResourceRoute(kind, name).Subject
	return OfResources[slices.IndexFunc(OfResources, func(op *Operation) bool { return op.Subject == subject })]
}

func acquire(ctx context.Context, s *Service, call *Call) error {
	grant, err := s.Sessions.Acquire(ctx, call.Session, call.Resource(), call.options(s, s.leaseTTL(call), ""))
	return call.setWaited(grant, err)
}

func (s *Service) leaseTTL(call *Call) time.Duration {
	return cmp.Or(call.TTL, s.DefaultLeaseTTL, wire.DefaultLeaseTTL)
}

// setWaited sets the outcome of a wait. A wait that ran out of time is an answer, not
// an error.
func (c *Call) setWaited(grant kvslots.Grant, err error) error {
	switch {
	case errors.Is(err, kvslots.ErrNoSlot):
		c.Answer, c.outcome, c.failed = wire.NotGranted{Status: wire.GrantTimeout}, outcomeRefused, err
	case err != nil:
		return err
	default:
		c.setGrant(wire.GrantOK, grant)
	}
	return nil
}

func (c *Call) setGrant(status string, grant kvslots.Grant) {
	c.Answer, c.grant, c.Token, c.Queued = wire.NewGrant(status, grant), grant, grant.Token, grant.Queued
	c.outcome = outcomeGranted
	c.undo, c.keep = release, abandonGrant
	if grant.Resumed {
		c.undo = abandonGrant
	}
}

func abandonGrant(ctx context.Context, s *Service, call *Call) error {
	call.outcome = outcomeReturned
	return s.Sessions.AbandonGrant(ctx, call.Session, call.Resource(), call.grant)
}

func enqueue(ctx context.Context, s *Service, call *Call) error {
	grant, acquired, err := s.Sessions.Enqueue(ctx, call.Session, call.Resource(), call.options(s, s.leaseTTL(call), ""))
	switch {
	case err != nil:
		return err
	case acquired:
		call.setGrant(wire.GrantAcquired, grant)
	default:
		call.Answer = wire.NotGranted{Status: wire.GrantQueued}
	}
	return nil
}

func wait(ctx context.Context, s *Service, call *Call) error {
	grant, err := s.Sessions.Wait(ctx, call.Session, call.Resource(), s.Lending.Clamp(call.Wait))
	grant.Queued = true // by enqueue, if not by this call
	return call.setWaited(grant, err)
}

func release(ctx context.Context, s *Service, call *Call) error {
	call.outcome = outcomeReturned
	return s.Sessions.Release(ctx, call.Session, call.Resource(), call.Token)
}

func renewGrant(ctx context.Context, s *Service, call *Call) error {
	left, err := s.Sessions.RenewGrant(ctx, call.Session, call.Resource(), call.Token, s.leaseTTL(call))
	call.Answer, call.outcome = wire.NewRenewed(left), outcomeRenewed
	return err
}
