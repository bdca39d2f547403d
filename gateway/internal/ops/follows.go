package ops

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// longestFollow bounds how long a request may follow something. Its client then asks again.
const longestFollow = time.Minute

// The operations that follow what a client holds (gateway/natsapi/README.md, "Following"). They
// are answered when it has ended, or their time is over. They exist over NATS only.
var (
	FollowLease = &Operation{Route: wire.FollowLease, endsWithClient: true, refusedWhileDraining: true, perform: followLease}

	OfFollowing = []*Operation{
		{Route: wire.FollowSession, endsWithClient: true, refusedWhileDraining: true, perform: followSession},
		{Route: wire.ResourceRoute(kvslots.KindLock, subjects.Follow), endsWithClient: true, refusedWhileDraining: true, perform: followGrant},
		{Route: wire.ResourceRoute(kvslots.KindSemaphore, subjects.Follow), endsWithClient: true, refusedWhileDraining: true, perform: followGrant},
	}
)

func followLease(ctx context.Context, s *Service, call *Call) error {
	return follow(ctx, call, func(ctx context.Context) error { return s.Pools.Follower().Lease(ctx, call.Pool, call.LeaseID) })
}

func followSession(ctx context.Context, s *Service, call *Call) error {
	return follow(ctx, call, func(ctx context.Context) error { return s.Sessions.Follower().Session(ctx, call.Session) })
}

func followGrant(ctx context.Context, s *Service, call *Call) error {
	return follow(ctx, call, func(ctx context.Context) error {
		return s.Sessions.Follower().Grant(ctx, call.Session, call.Resource(), call.Token)
	})
}

// errHeld is the cause when the time of a request is over.
var errHeld = errors.New("not ended yet")

func follow(ctx context.Context, call *Call, ended func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(call.Wait, longestFollow), errHeld)
	defer cancel()
	why := ended(ctx)
	answer, over := wire.NewFollowed(why)
	if !over && !errors.Is(why, errHeld) {
		return why
	}
	call.Answer = answer
	return nil
}
