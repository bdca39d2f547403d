package kvslots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// The range of a session's idle time.
const (
	MinSessionIdle = time.Second
	MaxSessionIdle = 24 * time.Hour
)

// CreateSession creates a session, under which locks and semaphores are held and
// waited for. It ends when it has been idle for that long, MinSessionIdle …
// MaxSessionIdle: when no call named it, and none that does was under way. What
// it holds is free then, and it leaves every line.
//
// The id is a secret. The session is there for every peer on the bucket, and
// outlives them. origin is where the client comes from, for Config's cap on
// that; "" counts for nothing.
//
// The errors are ErrMaxSessions, ErrMaxSessionsPerOrigin, ErrUnavailable,
// ErrClosed, a *RangeError, and what ctx ends with. How long a session lives is in
// kvslots/DESIGN.md, "Sessions".
func (s *Store) CreateSession(ctx context.Context, idle time.Duration, origin string) (id string, err error) {
	if idle < MinSessionIdle || idle > MaxSessionIdle {
		return "", &RangeError{"idle", fmt.Sprintf("between %v and %v", MinSessionIdle, MaxSessionIdle)}
	}
	if err := s.mayAdd(ctx); err != nil {
		return "", err
	}
	id = randomHash().String()
	request := peer.CreateSession{Session: sessionHash(id), Idle: idle}
	if origin != "" {
		request.Origin = entry.HashOf("origin", origin)
	}
	if _, err := s.bucket.Do(ctx, request); err != nil {
		return "", err
	}
	return id, nil
}

// Ping keeps a session alive, and does nothing else.
//
// The errors are ErrSessionGone, ErrUnavailable, ErrClosed and what ctx ends
// with.
func (s *Store) Ping(ctx context.Context, session string) error {
	if !isHex(session) {
		return ErrSessionGone
	}
	_, err := s.bucket.Do(ctx, peer.Ping{Session: sessionHash(session)})
	return err
}

// EndSession ends a session: what it holds is free when the call returns, and
// calls under way for it return ErrSessionGone. It ends even when ctx has ended:
// see ReturnTimeout.
//
// The errors are ErrSessionGone, ErrUnavailable and ErrClosed. After
// ErrUnavailable it may have ended or not; the call may be repeated.
func (s *Store) EndSession(_ context.Context, session string) error {
	if !isHex(session) {
		return ErrSessionGone
	}
	_, err := s.bucket.Do(context.Background(), peer.EndSession{Session: sessionHash(session)}) // the peer bounds it
	return err
}

// Acquire takes a lock, or a slot of a semaphore, for a session under a lease of
// ttl. If it cannot be had, or others wait already, the session stands in line
// for it for up to wait. ttl is at least a second, wait at least 0; both are
// clamped to the Config's maxima.
//
// The errors are ErrNoSlot (not in that time), ErrSessionGone, ErrLimitMismatch,
// ErrMaxLocks, ErrMaxWaiters, ErrUnavailable, ErrClosed, a *RangeError, and what
// ctx ends with.
func (s *Store) Acquire(ctx context.Context, session string, r Resource, ttl, wait time.Duration) (Grant, error) {
	if err := s.checkLending(ctx, session, r, ttl, wait); err != nil {
		return Grant{}, err
	}
	nonce, half := newSecret(session)
	a, err := s.bucket.Do(ctx, peer.Acquire{
		Resource: r.pool(), Session: sessionHash(session), Lease: halfHash(half), Nonce: nonce,
		TTL: min(ttl, s.cfg.MaxTTL), Wait: min(wait, s.cfg.MaxWait),
	})
	if err != nil {
		return Grant{}, err
	}
	g := newGrant(a.Grant, half)
	g.Queued = a.Grant.Queued
	return g, nil
}

// Enqueue takes it at once if it can be had; acquired is true then. If not, the
// session joins the line, and has its place there until it ends or a Wait
// returns. When its turn comes it holds the lease, whether it waits or not.
//
// The errors are ErrAlreadyEnqueued, and those of Acquire but for ErrNoSlot.
func (s *Store) Enqueue(ctx context.Context, session string, r Resource, ttl time.Duration) (g Grant, acquired bool, err error) {
	if err := s.checkLending(ctx, session, r, ttl, 0); err != nil {
		return Grant{}, false, err
	}
	nonce, half := newSecret(session)
	a, err := s.bucket.Do(ctx, peer.Enqueue{
		Resource: r.pool(), Session: sessionHash(session), Lease: halfHash(half), Nonce: nonce,
		TTL: min(ttl, s.cfg.MaxTTL),
	})
	if err != nil || a.Queued {
		return Grant{}, false, err
	}
	return newGrant(a.Grant, half), true, nil
}

func (s *Store) checkLending(ctx context.Context, session string, r Resource, ttl, wait time.Duration) error {
	if err := CheckTimes(ttl, wait); err != nil {
		return err
	}
	if err := r.Check(true); err != nil {
		return err
	}
	if err := s.mayAdd(ctx); err != nil {
		return err
	}
	if !isHex(session) {
		return ErrSessionGone
	}
	return nil
}

// Wait waits until the session has what it enqueued for, for up to wait, which
// is clamped to the Config's maximum. Its lease begins anew then. If wait is
// over first, or ctx ends, the session leaves the line.
//
// The errors are ErrNoSlot (not in that time), ErrNotEnqueued, ErrLeaseExpired,
// ErrSessionGone, ErrUnavailable, ErrClosed, a *RangeError, and what ctx ends
// with. With ErrPlaceKept, and ErrClosed, the session keeps its place.
func (s *Store) Wait(ctx context.Context, session string, r Resource, wait time.Duration) (Grant, error) {
	if err := CheckTimes(time.Second, wait); err != nil {
		return Grant{}, err
	}
	if err := r.Check(false); err != nil {
		return Grant{}, err
	}
	if !isHex(session) {
		return Grant{}, ErrSessionGone
	}
	a, err := s.bucket.Do(ctx, peer.Await{
		Pool: r.hash(), Session: sessionHash(session), Lock: r.Kind == KindLock, Wait: min(wait, s.cfg.MaxWait),
	})
	if err != nil {
		return Grant{}, err
	}
	return newGrant(a.Grant, secretHalf(session, a.Grant.Nonce)), nil
}

// Release gives a lock, or a slot of a semaphore, back before its time. The
// token need not be one of the session's own. It is given back even when ctx has
// ended: see ReturnTimeout.
//
// The errors are ErrNotHeld (the token is unknown, or its lease has ended),
// ErrSessionGone, ErrUnavailable, ErrClosed and a *RangeError. After
// ErrUnavailable, and after ErrSessionGone if the session has just ended, it may
// have been given back or not; the call may be repeated.
func (s *Store) Release(_ context.Context, session string, r Resource, token string) error {
	held, err := r.held(session, token)
	if err != nil {
		return err
	}
	a, err := s.bucket.Do(context.Background(), peer.Return{Held: held}) // the peer bounds it
	if err == nil && !a.Returned || errors.Is(err, ErrNoPool) {
		return ErrNotHeld
	}
	return err
}

// Extend makes it last for ttl from now on, and says how long that is: ttl is at
// least a second, and clamped like Acquire's. The token stays the same.
//
// The errors are those of Release, and what ctx ends with. After ErrUnavailable
// it may have been extended or not; the call may be repeated.
func (s *Store) Extend(ctx context.Context, session string, r Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if err := CheckTimes(ttl, 0); err != nil {
		return 0, err
	}
	held, err := r.held(session, token)
	if err != nil {
		return 0, err
	}
	a, err := s.bucket.Do(ctx, peer.Renew{Held: held, TTL: min(ttl, s.cfg.MaxTTL)})
	if errors.Is(err, ErrNoPool) {
		return 0, ErrNotHeld
	}
	return a.Grant.TTL, err
}

// held is what a session's token stands for.
func (r Resource) held(session, token string) (peer.Held, error) {
	if err := r.Check(false); err != nil {
		return peer.Held{}, err
	}
	fence, lease, err := parseToken(token)
	if err != nil {
		return peer.Held{}, err
	}
	if !isHex(session) {
		return peer.Held{}, ErrSessionGone
	}
	return peer.Held{
		Pool: r.hash(), Lease: lease, Session: sessionHash(session),
		Named: true, Lock: r.Kind == KindLock, Fence: fence,
	}, nil
}

func newGrant(g peer.Grant, half string) Grant {
	return Grant{Token: newToken(g.Fence, half), Fence: g.Fence, TTL: g.TTL}
}

func sessionHash(id string) entry.Hash { return entry.HashOf("session", id) }
