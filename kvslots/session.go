package kvslots

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
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
// ErrClosed, a *RangeError, and what ctx ends with. The rules of sessions are
// those of dflockd, "Sessions".
func (s *Store) CreateSession(ctx context.Context, idle time.Duration, origin string) (id string, err error) {
	if idle < MinSessionIdle || idle > MaxSessionIdle {
		return "", &RangeError{"idle", fmt.Sprintf("between %v and %v", MinSessionIdle, MaxSessionIdle)}
	}
	var secret [tokenLength / 2]byte
	_, _ = rand.Read(secret[:])
	id = hex.EncodeToString(secret[:])
	var from entry.Hash
	if origin != "" {
		from = entry.HashOf("origin", origin)
	}
	if err := s.bucket.createSession(ctx, sessionHash(id), idle, from); err != nil {
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
	return s.bucket.ping(ctx, sessionHash(session))
}

// EndSession ends a session: what it holds is free when the call returns, and
// calls under way for it return ErrSessionGone. It ends even when ctx has ended:
// see ReturnTimeout.
//
// The errors are ErrSessionGone, ErrUnavailable and ErrClosed. After
// ErrUnavailable it may have ended or not; the call may be repeated.
func (s *Store) EndSession(ctx context.Context, session string) error {
	ctx, cancel := returning(ctx)
	defer cancel()
	if !isHex(session) {
		return ErrSessionGone
	}
	return s.bucket.removeSession(ctx, sessionHash(session))
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
	if wait < 0 {
		return Grant{}, &RangeError{"wait", "at least 0 seconds"}
	}
	return s.lend(ctx, session, r, ttl, min(wait, s.cfg.MaxWait), waits)
}

// Enqueue takes it at once if it can be had; acquired is true then. If not, the
// session joins the line, and has its place there until it ends or a Wait
// returns, for a day at most. When its turn comes it holds the lease, whether it
// waits or not.
//
// The errors are ErrAlreadyEnqueued, and those of Acquire but for ErrNoSlot.
func (s *Store) Enqueue(ctx context.Context, session string, r Resource, ttl time.Duration) (g Grant, acquired bool, err error) {
	g, err = s.lend(ctx, session, r, ttl, 0, enqueues)
	return g, g.Token != "", err
}

func (s *Store) lend(ctx context.Context, session string, r Resource, ttl, wait time.Duration, how manner) (Grant, error) {
	if ttl < time.Second {
		return Grant{}, &RangeError{"ttl", "at least 1 second"}
	}
	if err := r.check(true); err != nil {
		return Grant{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Grant{}, err
	}
	if !isHex(session) {
		return Grant{}, ErrSessionGone
	}
	nonce := randomHash()
	half := secretHalf(session, nonce)
	op := &borrow{
		pool: r.hash(), hash: halfHash(half), ttl: min(ttl, s.cfg.MaxTTL), wait: wait,
		naming: r.naming(nonce), session: sessionHash(session), manner: how,
	}
	b := s.bucketOf(op.pool)
	defer b.call(op.session)()
	if how == enqueues {
		if err := b.notEnqueued(ctx, op); err != nil {
			return Grant{}, err
		}
	}
	lease, err := b.borrow(ctx, op)
	if lease == nil || err != nil {
		return Grant{}, err
	}
	return newGrant(lease, half), nil
}

// Wait waits until the session has what it enqueued for, for up to wait, which
// is clamped to the Config's maximum. Its lease begins anew then. If wait is
// over first, or ctx ends, the session leaves the line.
//
// The errors are ErrNoSlot (not in that time), ErrNotEnqueued, ErrLeaseExpired,
// ErrSessionGone, ErrUnavailable, ErrClosed, a *RangeError, and what ctx ends
// with. With ErrPlaceKept, and ErrClosed, the session keeps its place.
func (s *Store) Wait(ctx context.Context, session string, r Resource, wait time.Duration) (Grant, error) {
	if wait < 0 {
		return Grant{}, &RangeError{"wait", "at least 0 seconds"}
	}
	if err := r.check(false); err != nil {
		return Grant{}, err
	}
	if !isHex(session) {
		return Grant{}, ErrSessionGone
	}
	w := &await{pool: r.hash(), session: sessionHash(session), lock: r.Kind == KindLock, changed: make(chan struct{}, 1)}
	b := s.bucketOf(w.pool)
	defer b.call(w.session)()
	lease, nonce, err := w.wait(ctx, b, min(wait, s.cfg.MaxWait))
	if err != nil {
		return Grant{}, err
	}
	return newGrant(lease, secretHalf(session, nonce)), nil
}

// Release gives a lock, or a slot of a semaphore, back before its time. The
// token need not be one of the session's own. It is given back even when ctx has
// ended: see ReturnTimeout.
//
// The errors are ErrNotHeld (the token is unknown, or its lease has ended),
// ErrSessionGone, ErrUnavailable, ErrClosed and a *RangeError. After
// ErrUnavailable it may have been given back or not; the call may be repeated.
func (s *Store) Release(ctx context.Context, session string, r Resource, token string) error {
	ctx, cancel := returning(ctx)
	defer cancel()
	return s.held(ctx, session, r, token, func(b *bucket, w wanted) error {
		returned, err := b.giveBack(ctx, w)
		if err == nil && !returned {
			err = ErrNotHeld
		}
		return err
	})
}

// Extend makes it last for ttl from now on, and says how long that is: ttl is at
// least a second, and clamped like Acquire's. The token stays the same.
//
// The errors are those of Release, and what ctx ends with. After ErrUnavailable
// it may have been extended or not; the call may be repeated.
func (s *Store) Extend(ctx context.Context, session string, r Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if ttl < time.Second {
		return 0, &RangeError{"ttl", "at least 1 second"}
	}
	err = s.held(ctx, session, r, token, func(b *bucket, w wanted) error {
		lease, err := b.renew(ctx, w, noLease, min(ttl, s.cfg.MaxTTL), nil)
		if err == nil {
			remaining = lease.TTL()
		}
		return err
	})
	return remaining, err
}

// held does something with what a token stands for.
func (s *Store) held(ctx context.Context, session string, r Resource, token string, do func(*bucket, wanted) error) error {
	if err := r.check(false); err != nil {
		return err
	}
	fence, lease, err := parseToken(token)
	if err != nil {
		return err
	}
	if !isHex(session) {
		return ErrSessionGone
	}
	w := wanted{pool: r.hash(), lease: lease, named: true, lock: r.Kind == KindLock, fence: fence}
	b, id := s.bucketOf(w.pool), sessionHash(session)
	defer b.call(id)()
	if err := b.needAlive(ctx, id); err != nil {
		return err
	}
	err = do(b, w)
	if errors.Is(err, ErrNoPool) {
		err = ErrNotHeld // nobody holds or waits for it
	}
	return err
}

func newGrant(l *Lease, half string) Grant {
	return Grant{Token: newToken(l.Fence(), half), Fence: l.Fence(), TTL: l.TTL()}
}

func sessionHash(id string) entry.Hash { return entry.HashOf("session", id) }
