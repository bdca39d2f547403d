package kvslots

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/access"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Store is a peer on the bucket. It is safe for concurrent use. Package natsstore opens it.
//
// When a method's context ends, the method returns context.Cause(ctx), and the
// caller holds no slot and no place in line. Return, Release and EndSession ignore
// the end of the context: see ReturnTimeout.
//
// The end of the context also ends the wait for Config.Durable.
type Store struct {
	cfg      Config
	bucket   access.Bucket
	watching watching
}

// NewStore returns a Store on the bucket that open opens with a Config whose defaults are set. It is for package
// natsstore. The error is that of open, or a *RangeError for the Config.
func NewStore(cfg Config, open func(Config, peer.Config, func([]peer.Event)) (access.Bucket, error)) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, watching: watching{changed: make(chan struct{})}}
	if s.bucket, err = open(cfg, cfg.peer(), s.watching.note); err != nil {
		return nil, err
	}
	if cfg.Room != nil {
		s.bucket = withMajority{s.bucket, cfg.Room}
	}
	return s, nil
}

// withMajority answers what callers ask for at once while most nodes of the cluster are missing, rather than when JetStream
// has not answered for seconds.
type withMajority struct {
	access.Bucket
	room func() error
}

func (b withMajority) Do(ctx context.Context, r peer.Request) (peer.Answer, error) {
	switch r.(type) {
	case peer.Abandon, peer.Confirm: // of the Store itself
	default:
		if err := b.room(); errors.Is(err, ErrNoMajority) {
			return peer.Answer{}, err
		}
	}
	return b.Bucket.Do(ctx, r)
}

// Close ends every pending call with ErrClosed, gives up the callers' places in line,
// and waits for all goroutines. Leases stay live. Close takes a few seconds at most, and
// less if ctx ends. It returns nil.
func (s *Store) Close(ctx context.Context) error {
	s.bucket.Close(ctx)
	s.watching.close()
	return nil
}

// ID returns the random id of the bucket, which is the same for all Stores on it, and after a restore. It is no
// secret.
func (s *Store) ID() string { return s.bucket.ID() }

// Ready returns nil when the Store can serve callers: a write that began within the
// last second is acknowledged, durable, and in the peer's view, and the server has room
// for new entries. Otherwise it returns an error that says what is missing. It blocks
// for two seconds at most. Calls within the same second share one write.
func (s *Store) Ready() error {
	if err := s.room(); err != nil {
		return err
	}
	err := s.bucket.Ready()
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return unavailable(err)
}

// checkRoom returns nil if a call that adds entries may go on, and otherwise why not.
func (s *Store) checkRoom(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.room()
}

// room returns ErrFull, or ErrUnavailable, if the server has no room for new entries.
func (s *Store) room() error {
	if s.cfg.Room == nil {
		return nil
	}
	if lack := s.cfg.Room(); lack != nil {
		return full(lack)
	}
	return nil
}

// Borrow takes the lowest free slot of a pool under a lease, which is renewed until Lease.Return: see WithTTL and
// WithFixedTTL. If no slot is free, or other borrowers wait already, Borrow waits in line until
// ctx ends, or for WithWait. A longer ttl is clamped to Config.MaxTTL.
//
// The errors are ErrNoSlot, ErrNoPool (also if the pool is deleted during the wait),
// ErrMaxWaiters, ErrKeyReused, ErrUnavailable, ErrClosed, a *RangeError, and context.Cause(ctx). For
// which slot is taken and when, see kvslots/DESIGN.md, "Taking a slot" and "The line".
func (s *Store) Borrow(ctx context.Context, pool uuid.UUID, opts ...Option) (*Lease, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if err := s.checkRoom(ctx); err != nil {
		return nil, err
	}
	ids := leaseIDs{pool: pool, key: o.RequestKey, fixed: o.Fixed}
	a, err := s.bucket.Do(ctx, s.newBorrow(&ids, o))
	if err != nil {
		return nil, refused(err, a.Refusal)
	}
	l := s.lease(&ids, &a.Grant)
	if !ids.fixed {
		l.KeepAlive()
	}
	return l, nil
}

// leaseIDs are the secrets of a lease: its pool's id and its own.
type leaseIDs struct {
	pool  uuid.UUID
	lease uuid.UUID // of a borrow, that of its first claim; with a key, the nonce of that
	key   string    // the request key; "" for none
	fixed bool      // see WithFixedTTL
}

// ofClaim returns the lease id of claim n of a borrow, counted from 0. Each claim has its own.
func (ids *leaseIDs) ofClaim(n int) uuid.UUID {
	of := nonceOfClaim(entry.Hash(ids.lease), n)
	if ids.key == "" {
		return uuid.UUID(of)
	}
	return leaseOfRequest(&ids.pool, ids.key, of)
}

// hashOfClaim returns the hash of the lease id of claim n, and with a key its nonce.
func (ids *leaseIDs) hashOfClaim(n int) (lease, nonce entry.Hash) {
	if ids.key != "" {
		nonce = nonceOfClaim(entry.Hash(ids.lease), n)
	}
	return leaseHash(ids.ofClaim(n)), nonce
}

func (s *Store) newBorrow(ids *leaseIDs, o *Options) peer.Borrow {
	ttl, wait := o.Times()
	ids.lease = uuid.New()
	r := peer.Borrow{
		Pool: poolHash(ids.pool), LeaseOf: ids.hashOfClaim,
		TTL: min(ttl, s.cfg.MaxTTL), Wait: wait, Label: o.Label, Origin: s.originHash(o.Origin),
		Request: requestHash(string(ids.pool[:]), ids.key),
	}
	r.Lease, r.Nonce = ids.hashOfClaim(0)
	return r
}

func (s *Store) lease(ids *leaseIDs, g *peer.Grant) *Lease {
	id := ids.lease // of a renewal
	switch {
	case ids.key != "":
		id = leaseOfRequest(&ids.pool, ids.key, g.Nonce)
	case g.Claim > 0:
		id = ids.ofClaim(g.Claim)
	}
	l := NewLease(s, ids.pool, id, g.Position, g.Fence, g.TTL, clock.Now()-time.Since(s.bucket.Time(g.At)))
	l.queued, l.resumed, l.sharers = g.Queued, g.Resumed, g.Sharers
	return l
}

// CheckTimes returns a *RangeError unless ttl is at least a second and wait at least 0.
func CheckTimes(ttl, wait time.Duration) error {
	if ttl < time.Second {
		return &RangeError{"ttl", "at least 1 second"}
	}
	if wait < 0 {
		return &RangeError{"wait", "at least 0 seconds"}
	}
	return nil
}

// Return ends a lease early. It returns false when the lease is unknown, was
// returned already, or has ended. It ignores the end of ctx: see ReturnTimeout.
//
// The errors are ErrNoPool, ErrUnavailable and ErrClosed. After ErrUnavailable
// the lease may or may not have been returned; the call may be repeated.
func (s *Store) Return(_ context.Context, pool, lease uuid.UUID) (bool, error) {
	request := peer.Return{Held: peer.Held{Pool: poolHash(pool), Lease: leaseHash(lease)}}
	_, err := s.bucket.Do(context.Background(), request) // the peer has a timeout
	return ended(err)
}

// ended reports whether a call has ended a lease that was held until then.
func ended(err error) (bool, error) {
	if errors.Is(err, ErrNotHeld) {
		return false, nil
	}
	return err == nil, err
}

// Abandon gives back a lease that a Borrow has returned, and of which its caller could not be told. The lease
// lives on if another caller may know of it: of a repeat, or of a renewal. Abandon is for gateways, must be
// called once, and does not wait for the end of the lease. The error is ErrClosed.
func (s *Store) Abandon(_ context.Context, lease *Lease) error {
	_, err := s.bucket.Do(context.Background(), peer.Abandon{Pool: poolHash(lease.pool), Lease: leaseHash(lease.id), Sharers: lease.sharers})
	return err
}

// Renew sets the end of a lease to ttl from now. The lease keeps its position and
// its fence. ttl must be at least a second, and is clamped like Borrow's.
//
// The errors are ErrNotHeld, ErrNoPool, ErrUnavailable, ErrClosed, a
// *RangeError, and context.Cause(ctx). After ErrUnavailable the lease may or may
// not have been renewed; the call may be repeated.
func (s *Store) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*Lease, error) {
	if err := CheckTimes(ttl, 0); err != nil {
		return nil, err
	}
	ids := leaseIDs{pool: pool, lease: lease}
	a, err := s.bucket.Do(ctx, peer.Renew{
		Held: peer.Held{Pool: poolHash(ids.pool), Lease: leaseHash(ids.lease)}, TTL: min(ttl, s.cfg.MaxTTL),
	})
	if err != nil {
		return nil, err
	}
	return s.lease(&ids, &a.Grant), nil
}
