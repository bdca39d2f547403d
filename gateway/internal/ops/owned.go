package ops

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// OwnedLocks is what calls of functions ask, which hold locks by their owner and not by
// a session; *kvslots.Store is one.
type OwnedLocks interface {
	LockOwned(ctx context.Context, name, owner string, ttl, wait time.Duration) (*kvslots.OwnedLock, error)
	UnlockOwned(ctx context.Context, lock *kvslots.OwnedLock) (bool, error)
	ReleaseOwned(ctx context.Context, name, owner string) error
	ForceRelease(ctx context.Context, name string) error
	OwnedStatus(ctx context.Context, name string) (kvslots.OwnedStatus, error)
	Ready() error
}
