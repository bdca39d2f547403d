package ops

import (
	"context"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// OwnedLocks is the part of a *kvslots.Store that operations on owned locks use. An owned
// lock belongs to an owner instead of a session.
type OwnedLocks interface {
	LockOwned(ctx context.Context, name, owner string, opts ...kvslots.Option) (*kvslots.OwnedLock, error)
	UnlockOwned(ctx context.Context, lock *kvslots.OwnedLock) (bool, error)
	ReleaseOwned(ctx context.Context, name, owner string) error
	ForceRelease(ctx context.Context, name string) error
	OwnedStatus(ctx context.Context, name string) (kvslots.OwnedStatus, error)
	Ready() error
}

// The operations on owned locks (gateway/README.md, "Forrst: /rpc"). Package forrst, which
// serves them over both transports, parses the parameters, and has the table of errors:
// both are parts of Forrst's envelopes.
var (
	LockOwned    = &Operation{Grants: true, perform: lockOwned}
	UnlockOwned  = &Operation{perform: unlockOwned}
	ReleaseOwned = &Operation{perform: releaseOwned}
	ForceRelease = &Operation{perform: forceRelease}
	StatusOwned  = &Operation{endsWithClient: true, perform: statusOwned}
)

func lockOwned(ctx context.Context, s *Service, call *Call) error {
	err := call.fromOrigin(kvslots.ErrMaxLocksPerOrigin, func(origin string) (err error) {
		call.Lock, err = s.Owned.LockOwned(ctx, call.Key, call.Owner, call.options(s, call.TTL, origin))
		return err
	})
	if err == nil {
		call.undo, call.outcome = unlockOwned, outcomeGranted
	}
	return err
}

func unlockOwned(ctx context.Context, s *Service, call *Call) error {
	released, err := s.Owned.UnlockOwned(ctx, call.Lock)
	call.setReturned(released)
	return err
}

func releaseOwned(ctx context.Context, s *Service, call *Call) error {
	call.Answer, call.outcome = wire.OwnedReleased{Released: true, Key: call.Key}, outcomeReturned
	return s.Owned.ReleaseOwned(ctx, call.Key, call.Owner)
}

func forceRelease(ctx context.Context, s *Service, call *Call) error {
	call.Answer, call.outcome = wire.OwnedReleased{Released: true, Key: call.Key, Forced: true}, outcomeReturned
	return s.Owned.ForceRelease(ctx, call.Key)
}

func statusOwned(ctx context.Context, s *Service, call *Call) error {
	status, err := s.Owned.OwnedStatus(ctx, call.Key)
	call.Answer = wire.NewOwnedStatus(call.Key, status)
	return err
}
