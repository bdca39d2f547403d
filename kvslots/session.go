package kvslots

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Range of a session's idle time.
const (
	MinSessionIdle = time.Second
	MaxSessionIdle = 24 * time.Hour

	DefaultSessionIdle = 40 * time.Second // without WithIdle
)

// CreateSession creates a session, which can hold locks and semaphores and wait for
// them. The session ends when no call for it has been made or pending for the duration
// idle: see WithIdle. Then it releases what it holds and leaves
// every line. See kvslots/DESIGN.md, "Sessions".
//
// The id is a secret. Every peer on the bucket can serve the session, and the session
// outlives the peer that created it. NewSession returns one that is kept alive.
//
// The errors are ErrMaxSessions, ErrMaxSessionsPerOrigin, ErrMaxTombstones, ErrUnavailable,
// ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) CreateSession(ctx context.Context, opts ...Option) (id string, idle time.Duration, err error) {
	o := Options{Idle: DefaultSessionIdle}
	if err := o.Apply(opts); err != nil {
		return "", 0, err
	}
	if err := s.checkRoom(ctx); err != nil {
		return "", 0, err
	}
	id = randomHash().String()
	request := peer.CreateSession{Session: sessionHash(id), Idle: o.Idle, Origin: s.originHash(o.Origin), Label: o.Label}
	if _, err := s.bucket.Do(ctx, request); err != nil {
		return "", 0, err
	}
	return id, o.Idle, nil
}

// Ping restarts a session's idle time, and has no other effect.
//
// The errors are ErrSessionGone, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) Ping(ctx context.Context, session string) error {
	if !isHex(session) {
		return ErrSessionGone
	}
	_, err := s.bucket.Do(ctx, peer.Ping{Session: sessionHash(session)})
	return err
}

// EndSession ends a session and releases what it holds. Pending calls of the session
// return ErrSessionGone. EndSession ignores the end of the context: see ReturnTimeout.
//
// The errors are ErrSessionGone, ErrUnavailable and ErrClosed. After ErrUnavailable
// the session may or may not have ended; the call may be repeated.
func (s *Store) EndSession(_ context.Context, session string) error {
	if !isHex(session) {
		return ErrSessionGone
	}
	_, err := s.bucket.Do(context.Background(), peer.EndSession{Session: sessionHash(session)}) // the peer has a timeout
	return err
}

// Acquire takes a lock, or a slot of a semaphore, for a session under a lease, which RenewGrant renews: see
// WithTTL. If none is free, or other callers wait already, the session waits in line until ctx ends, or for
// WithWait. A longer ttl is clamped to Config.MaxTTL.
//
// The errors are ErrNoSlot, ErrSessionGone, ErrLimitMismatch, ErrMaxLocks,
// ErrMaxLocksPerSession, ErrMaxLocksPerOrigin, ErrMaxWaiters, ErrMaxTombstones, ErrKeyReused,
// ErrUnavailable, ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) Acquire(ctx context.Context, session string, r Resource, opts ...Option) (Grant, error) {
	o, err := newOptions(opts)
	if err != nil {
		return Grant{}, err
	}
	if err := s.checkAcquire(ctx, session, r); err != nil {
		return Grant{}, err
	}
	a, err := s.bucket.Do(ctx, s.newAcquire(session, r, o))
	return s.granted(a, err, session, r.Key)
}

func (s *Store) newAcquire(session string, r Resource, o *Options) peer.Request {
	ttl, wait := o.Times()
	nonce, half := newSecret(session)
	return peer.Acquire{
		Resource: r.pool(), Session: sessionHash(session), Lease: halfHash(half), Nonce: nonce,
		TTL: min(ttl, s.cfg.MaxTTL), Wait: wait, Request: requestHash(session, o.RequestKey), Label: o.Label,
	}
}

func (s *Store) granted(a peer.Answer, err error, session, key string) (Grant, error) {
	if err != nil {
		return Grant{}, TakenName(refused(err, a.Refusal), key)
	}
	return s.newGrant(a.Grant, session), nil
}

// Enqueue takes a lock, or a slot of a semaphore, at once if one is free; acquired is
// true then. Otherwise the session joins the line, and keeps its place until it ends
// or a Wait returns. When its turn comes, the session is granted the lease even if it
// is not waiting.
//
// A repeat with the request key of a call that joined the line joins it no second time, and
// acquired is false until a Wait has returned the lease.
//
// The errors are ErrAlreadyEnqueued, and those of Acquire except ErrNoSlot.
func (s *Store) Enqueue(ctx context.Context, session string, r Resource, opts ...Option) (g Grant, acquired bool, err error) {
	o, err := newOptions(opts)
	if err != nil {
		return Grant{}, false, err
	}
	if err := s.checkAcquire(ctx, session, r); err != nil {
		return Grant{}, false, err
	}
	ttl, _ := o.Times()
	nonce, half := newSecret(session)
	a, err := s.bucket.Do(ctx, peer.Enqueue{
		Resource: r.pool(), Session: sessionHash(session), Lease: halfHash(half), Nonce: nonce,
		TTL: min(ttl, s.cfg.MaxTTL), Request: requestHash(session, o.RequestKey), Label: o.Label,
	})
	if err != nil || a.Queued {
		return Grant{}, false, TakenName(refused(err, a.Refusal), r.Key)
	}
	return s.newGrant(a.Grant, session), true, nil
}

func (s *Store) checkAcquire(ctx context.Context, session string, r Resource) error {
	if err := r.Check(true); err != nil {
		return err
	}
	if err := s.checkRoom(ctx); err != nil {
		return err
	}
	if !isHex(session) {
		return ErrSessionGone
	}
	return nil
}

// Wait blocks until the session's turn has come in a line that it joined by Enqueue, at
// most for the duration wait. The lease's time
// restarts when Wait returns it. If the turn does not come, or ctx ends, the session
// leaves the line, except if the cause is ErrPlaceKept or ErrClosed. After
// ErrUnavailable it may have left the line.
//
// The errors are ErrNoSlot, ErrNotEnqueued, ErrLeaseExpired, ErrSessionGone,
// ErrUnavailable, ErrClosed, a *RangeError, and context.Cause(ctx).
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
		Pool: r.hash(), Session: sessionHash(session), Lock: r.Kind == KindLock, Wait: min(wait, year),
	})
	return s.granted(a, err, session, r.Key)
}

// Release releases a lock, or a slot of a semaphore, before its lease ends. The token may
// be that of another session's lease, and session may be "". Release ignores the end of the context: see
// ReturnTimeout.
//
// The errors are ErrNotHeld (the token is unknown, or its lease has ended),
// ErrSessionGone, ErrUnavailable, ErrClosed and a *RangeError. After
// ErrUnavailable, and after ErrSessionGone if the session has just ended, it may
// or may not have been released; the call may be repeated.
func (s *Store) Release(_ context.Context, session string, r Resource, token string) error {
	held, err := r.held(session, token)
	if err != nil {
		return err
	}
	_, err = s.bucket.Do(context.Background(), peer.Return{Held: held}) // the peer has a timeout
	return err
}

// AbandonGrant gives back a grant as Abandon does a lease.
func (s *Store) AbandonGrant(_ context.Context, session string, r Resource, g Grant) error {
	held, err := r.held(session, g.Token)
	if err != nil {
		return err
	}
	_, err = s.bucket.Do(context.Background(), peer.Abandon{Pool: held.Pool, Lease: held.Lease, Sharers: g.sharers})
	return err
}

// RenewGrant sets the end of a lease to ttl from now, and returns the remaining time. ttl must
// be at least a second, and is clamped like Acquire's. The token stays the same. It may be
// that of another session's lease, and session may be "".
//
// The errors are those of Release, and context.Cause(ctx). After ErrUnavailable the
// lease may or may not have been renewed; the call may be repeated.
func (s *Store) RenewGrant(ctx context.Context, session string, r Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if err := CheckTimes(ttl, 0); err != nil {
		return 0, err
	}
	held, err := r.held(session, token)
	if err != nil {
		return 0, err
	}
	a, err := s.bucket.Do(ctx, peer.Renew{Held: held, TTL: min(ttl, s.cfg.MaxTTL)})
	return a.Grant.TTL, err
}

// held identifies the lease of a token, for a request of a session, or of none.
func (r Resource) held(session, token string) (peer.Held, error) {
	if err := r.Check(false); err != nil {
		return peer.Held{}, err
	}
	fence, lease, err := parseToken(token)
	if err != nil {
		return peer.Held{}, err
	}
	h := peer.Held{Pool: r.hash(), Lease: lease, Named: true, Lock: r.Kind == KindLock, Fence: fence}
	if session == "" {
		return h, nil
	}
	if !isHex(session) {
		return peer.Held{}, ErrSessionGone
	}
	h.Session = sessionHash(session)
	return h, nil
}

func (s *Store) newGrant(g peer.Grant, session string) Grant {
	return Grant{At: s.bucket.Time(g.At), Token: newToken(g.Fence, secretHalf(session, g.Nonce)), Fence: g.Fence, TTL: g.TTL, Queued: g.Queued, Resumed: g.Resumed, sharers: g.Sharers}
}
