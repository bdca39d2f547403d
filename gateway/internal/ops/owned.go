package ops

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// OwnedLocks is the part of a *kvslots.Store that function calls use. Their locks
// belong to an owner instead of a session.
type OwnedLocks interface {
	LockOwned(ctx context.Context, name, owner string, ttl, wait time.Duration) (*kvslots.OwnedLock, error)
	UnlockOwned(ctx context.Context, lock *kvslots.OwnedLock) (bool, error)
	ReleaseOwned(ctx context.Context, name, owner string) error
	ForceRelease(ctx context.Context, name string) error
	OwnedStatus(ctx context.Context, name string) (kvslots.OwnedStatus, error)
	Ready() error
}
