package ops

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// OfResources are the operations on locks and semaphores (gateway/README.md, "The
// dflockd API: /v1").
var OfResources = append(ofKind(kvslots.KindLock, subjects.Lock), ofKind(kvslots.KindSemaphore, subjects.Semaphore)...)

func ofKind(kind kvslots.Kind, noun string) []*Operation {
	all := []*Operation{
		{Name: subjects.Acquire, Grants: true, read: readAcquire, do: acquire},
		{Name: subjects.Enqueue, Grants: true, read: readEnqueue, do: enqueue},
		{Name: subjects.Wait, Grants: true, leaves: true, read: readWait, do: wait},
		{Name: subjects.Release, read: readRelease, do: release},
		{Name: subjects.Renew, read: readExtend, do: extend},
	}
	for _, op := range all {
		op.Noun, op.Subject, op.kind, op.family = noun, subjects.Of(noun, op.Name), kind, &ofResource
	}
	return all
}

var ofResource = family{StatusOf: wire.CodeOf, Parse: wire.ParseStrict, locate: locateResource, inTurn: true}

func locateResource(call Call, body wire.Fields) (Call, error) {
	call, err := locateSession(call, body)
	if err != nil {
		return call, err
	}
	call.Resource.Key, err = body.Key()
	return call, err
}

func readAcquire(call Call, body wire.Fields) (Call, error) {
	claim, err := body.Acquire(call.kind)
	call.ttl, call.wait, call.Resource.Limit = claim.TTL, claim.Wait, claim.Limit
	return call, err
}

func acquire(ctx context.Context, s *Service, call Call) (Outcome, error) {
	grant, err := s.Sessions.Acquire(ctx, call.Session, call.Resource, s.leaseTTL(call), call.wait)
	return waited(call, grant, err)
}

func (s *Service) leaseTTL(call Call) time.Duration {
	return cmp.Or(call.ttl, s.DefaultLeaseTTL, wire.DefaultLeaseTTL)
}

// waited makes an answer of the lack of a slot: running out of time is no error.
func waited(call Call, grant kvslots.Grant, err error) (Outcome, error) {
	switch {
	case errors.Is(err, kvslots.ErrNoSlot):
		return Outcome{Answer: wire.Standing{Status: wire.GrantTimeout}}, nil
	case err != nil:
		return Outcome{}, err
	}
	return granted(call, wire.GrantOK, grant), nil
}

func granted(call Call, status string, grant kvslots.Grant) Outcome {
	call.token = grant.Token
	return Outcome{Answer: wire.NewGrant(status, grant), Queued: grant.Queued, undo: release, call: call}
}

func readEnqueue(call Call, body wire.Fields) (Call, error) {
	claim, err := body.Enqueue(call.kind)
	call.ttl, call.Resource.Limit = claim.TTL, claim.Limit
	return call, err
}

func enqueue(ctx context.Context, s *Service, call Call) (Outcome, error) {
	grant, acquired, err := s.Sessions.Enqueue(ctx, call.Session, call.Resource, s.leaseTTL(call))
	switch {
	case err != nil:
		return Outcome{}, err
	case !acquired:
		return Outcome{Answer: wire.Standing{Status: wire.GrantQueued}}, nil
	}
	return granted(call, wire.GrantAcquired, grant), nil
}

func readWait(call Call, body wire.Fields) (_ Call, err error) {
	call.wait, err = body.Wait()
	return call, err
}

func wait(ctx context.Context, s *Service, call Call) (Outcome, error) {
	grant, err := s.Sessions.Wait(ctx, call.Session, call.Resource, call.wait)
	grant.Queued = true // by enqueue, if not by this call
	return waited(call, grant, err)
}

func readRelease(call Call, body wire.Fields) (_ Call, err error) {
	call.token, err = body.Release()
	return call, err
}

func release(ctx context.Context, s *Service, call Call) (Outcome, error) {
	return Outcome{}, s.Sessions.Release(ctx, call.Session, call.Resource, call.token)
}

func readExtend(call Call, body wire.Fields) (_ Call, err error) {
	call.token, call.ttl, err = body.Renew()
	return call, err
}

func extend(ctx context.Context, s *Service, call Call) (Outcome, error) {
	left, err := s.Sessions.Extend(ctx, call.Session, call.Resource, call.token, s.leaseTTL(call))
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Answer: wire.NewRenewed(left)}, nil
}
