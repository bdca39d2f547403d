package kvslots

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/hidden"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Follower tells its callers that what they hold has ended, before a renewal would be refused. Each
// method blocks until that is so, and returns why: Lease ErrNotHeld, which may be ErrExpired
// or ErrEvicted, or ErrNoPool; Session ErrSessionGone; and Grant ErrNotHeld or
// ErrSessionGone. If ctx ends before, it returns context.Cause(ctx). Following neither renews anything nor keeps a session alive.
//
// A Store knows the end as soon as it sees it in the bucket; its other error is ErrClosed. A
// client.Client follows over NATS only, and otherwise returns errors.ErrUnsupported.
type Follower interface {
	Lease(ctx context.Context, pool, lease uuid.UUID) error
	Session(ctx context.Context, session string) error
	Grant(ctx context.Context, session string, r Resource, token string) error
}

type storeFollower struct{ s *Store }

// Follower is for gateways, and for the Leases, Sessions and Mutexes of a Store.
func (s *Store) Follower() Follower { return storeFollower{s} }

// Lease blocks until a lease has ended: see Follower.
func (f storeFollower) Lease(ctx context.Context, pool, lease uuid.UUID) error {
	request := peer.Follow{Held: peer.Held{Pool: poolHash(pool), Lease: leaseHash(lease)}}
	hidden.Clear(&pool, &lease)
	return f.s.follow(ctx, request)
}

// Session blocks until a session has ended: see Follower.
func (f storeFollower) Session(ctx context.Context, session string) error {
	if !isHex(session) {
		return ErrSessionGone
	}
	return f.s.follow(ctx, peer.Follow{Held: peer.Held{Session: sessionHash(session)}})
}

// Grant blocks until a grant of a session has ended, or the session: see Follower. A
// *RangeError says that an argument is invalid.
func (f storeFollower) Grant(ctx context.Context, session string, r Resource, token string) error {
	held, err := r.held(session, token)
	if err != nil {
		return err
	}
	return f.s.follow(ctx, peer.Follow{Held: held})
}

func (s *Store) follow(ctx context.Context, r peer.Follow) error {
	c := s.bucket.Begin(r)
	c.Wait(ctx)
	a, err := c.Answer()
	return cmp.Or(a.Ended, err)
}
