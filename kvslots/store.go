package kvslots

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Store is a peer on the bucket. All its methods may be called from several
// goroutines at once.
//
// When a method's context ends, the method returns context.Cause and leaves
// nothing held and nobody in line. Return, Release and EndSession go through all
// the same: see ReturnTimeout.
type Store struct {
	cfg    Config
	bucket *bucket
}

// Open connects a peer to the bucket, which is created if it does not exist. It
// returns when the peer's view is complete. The connection stays the caller's;
// it must outlive the Store.
//
// The errors are ErrServerTooOld, ErrWrongBucket, ErrUnavailable, a *RangeError
// for the Config, and what ctx ends with.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Store, error) {
	return open(ctx, nc, cfg, nil)
}

func open(ctx context.Context, nc *nats.Conn, cfg Config, hook hook) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := openBucket(ctx, nc, cfg, hook)
	if err != nil {
		return nil, err
	}
	return &Store{cfg, b}, nil
}

// Close ends every call under way with ErrClosed, leaves every line and joins
// all goroutines. Leases stay: they belong to their holders. It takes a few
// seconds at most, less if ctx ends.
func (s *Store) Close(ctx context.Context) error {
	s.bucket.close(ctx)
	return nil
}

// Ready tells whether the peer's view is complete and live; if not, why.
func (s *Store) Ready() error {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing:
		return ErrClosed
	case !b.loaded:
		return fmt.Errorf("%w: the view is being loaded", ErrUnavailable)
	case b.self.revision == 0:
		return fmt.Errorf("%w: the presence cannot be written", ErrUnavailable)
	case b.watch == nil || b.watch.broken || b.now()-b.watch.heard > asInstant(silence):
		return fmt.Errorf("%w: the stream is not heard", ErrUnavailable)
	}
	return nil
}

// BorrowOption is an option of Borrow.
type BorrowOption func(*borrow) error

// MaxLabel is the longest label, in bytes.
const MaxLabel = entry.MaxLabel

// WithLabel says in readable words who borrows. It is no secret: it stands in
// the bucket beside the lease. At most MaxLabel bytes of UTF-8.
func WithLabel(label string) BorrowOption {
	return func(op *borrow) error {
		if len(label) > MaxLabel || !utf8.ValidString(label) {
			return &RangeError{"label", fmt.Sprintf("UTF-8 of at most %d bytes", MaxLabel)}
		}
		op.label = label
		return nil
	}
}

// Borrow takes the lowest free slot of a pool under a lease of ttl. If none is
// free, or others wait already, it stands in line for up to wait. ttl is at
// least a second, wait at least 0; both are clamped to the Config's maxima.
//
// The errors are ErrNoSlot, ErrNoPool (the pool was deleted while waiting,
// perhaps), ErrUnavailable, ErrClosed, a *RangeError, and what ctx ends with.
// The rules are those of Library, "Borrowing".
func (s *Store) Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...BorrowOption) (*Lease, error) {
	if ttl < time.Second {
		return nil, &RangeError{"ttl", "at least 1 second"}
	}
	if wait < 0 {
		return nil, &RangeError{"wait", "at least 0 seconds"}
	}
	lease := uuid.New()
	op := &borrow{
		lender: s, poolID: pool, pool: poolHash(pool), lease: lease, hash: leaseHash(lease),
		ttl: min(ttl, s.cfg.MaxTTL), wait: min(wait, s.cfg.MaxWait),
	}
	for _, opt := range opts {
		if err := opt(op); err != nil {
			return nil, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.bucketOf(op.pool).borrow(ctx, op)
}

// Return ends a lease before its time. It returns false when the lease is
// unknown, was returned already or has ended. The lease is returned even when
// ctx has ended: see ReturnTimeout.
//
// The errors are ErrNoPool, ErrUnavailable and ErrClosed. After ErrUnavailable
// the lease may or may not have been returned; the call may be repeated. The
// rules are those of Library, "Returning".
func (s *Store) Return(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := returning(ctx)
	defer cancel()
	id := poolHash(pool)
	return s.bucketOf(id).giveBack(ctx, wanted{pool: id, lease: leaseHash(lease)})
}

// Renew makes a lease last for ttl from now on. The lease keeps its position
// and its fence. ttl is at least a second, and clamped like Borrow's.
//
// The errors are ErrNotHeld, ErrNoPool, ErrUnavailable, ErrClosed, a
// *RangeError, and what ctx ends with. After ErrUnavailable the lease may have
// been renewed or not; the call may be repeated.
func (s *Store) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*Lease, error) {
	if ttl < time.Second {
		return nil, &RangeError{"ttl", "at least 1 second"}
	}
	id := poolHash(pool)
	l, err := s.bucketOf(id).renew(ctx, wanted{pool: id, lease: leaseHash(lease)}, lease, min(ttl, s.cfg.MaxTTL), nil)
	if l != nil {
		l.lender, l.pool = s, pool
	}
	return l, err
}

// Register registers a pool of count slots, or changes the count of a pool that
// is registered already. A higher count wakes those who wait; a lower one
// recalls no lease and withholds new ones until fewer than count are in use.
// count is between 0 and MaxCount.
//
// The errors are ErrUnavailable, ErrClosed, a *RangeError, and what ctx ends
// with. The rules are those of Library, "Register a pool".
func (s *Store) Register(ctx context.Context, pool uuid.UUID, count int) (State, error) {
	if count < 0 || count > MaxCount {
		return State{}, &RangeError{"count", fmt.Sprintf("between 0 and %d", MaxCount)}
	}
	id := poolHash(pool)
	state, _, err := s.bucketOf(id).register(ctx, id, count)
	return state, err
}

// Inspect returns the state of a pool, as it was at an instant between the call
// and its return.
//
// The errors are ErrNoPool, ErrUnavailable, ErrClosed and what ctx ends with.
func (s *Store) Inspect(ctx context.Context, pool uuid.UUID) (State, error) {
	id := poolHash(pool)
	return s.bucketOf(id).inspect(ctx, id)
}

// Delete removes a pool with all its leases; those who wait get ErrNoPool. To
// delete a pool that does not exist is no error.
//
// The errors are ErrUnavailable, ErrClosed and what ctx ends with.
func (s *Store) Delete(ctx context.Context, pool uuid.UUID) error {
	id := poolHash(pool)
	return s.bucketOf(id).remove(ctx, id)
}
