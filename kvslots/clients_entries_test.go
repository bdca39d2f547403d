package kvslots

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// The table of kvslots/internal/entry/README.md: each kind of entry is written
// from one origin until it is refused, and another origin is served.
func TestWhatClientsCanHaveWritten(t *testing.T) {
	const share = 10
	cfg := Config{
		Logger: logtest.Logger(), MaxPools: 4 * share, MaxPoolsPerOrigin: share, MaxLocks: 4 * share, MaxLocksPerOrigin: share,
		MaxLocksPerSession: share / 2, MaxSessions: 4 * share, MaxSessionsPerOrigin: share, MaxWaiters: share,
		MaxTombstones: 6 * share,
	}
	lock := func(ctx context.Context, s *Store, i int) (*OwnedLock, error) {
		return s.LockOwned(ctx, fmt.Sprint("flood-", i), "flooder", WithTTL(time.Minute), WithWait(0), WithOrigin("flooder"))
	}
	register := func(ctx context.Context, s *Store) (uuid.UUID, error) {
		pool := uuid.New()
		_, err := s.Register(ctx, pool, 1, WithOrigin("flooder"))
		return pool, err
	}
	session := func(ctx context.Context, s *Store) (string, error) {
		id, _, err := s.CreateSession(ctx, WithOrigin("flooder"), WithIdle(time.Minute))
		return id, err
	}
	one := func(ctx context.Context, s *Store, id *string) (err error) {
		if *id == "" {
			*id, err = session(ctx, s)
		}
		return err
	}
	for name, kind := range map[string]struct {
		limit error
		most  int // entries before the refusal; 0: more than one
		write func() func(ctx context.Context, s *Store, i int) error
	}{
		"pools": {ErrMaxPools, share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error { _, err := register(ctx, s); return err }
		}},
		"pools out of service": {ErrMaxPools, share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error {
				pool, err := register(ctx, s)
				if err == nil {
					_, err = s.TakeOut(ctx, ByID(pool), OutOfService{Position: WholePool}, WithOrigin("flooder"))
				}
				return err
			}
		}},
		"pools deleted": {ErrMaxTombstones, 3 * share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error {
				pool, err := register(ctx, s)
				return errors.Join(err, s.Delete(ctx, pool))
			}
		}},
		"names held": {ErrMaxLocksPerOrigin, share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, i int) error { _, err := lock(ctx, s, i); return err }
		}},
		"names out of service": {ErrMaxLocksPerOrigin, share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, i int) error {
				l, err := lock(ctx, s, i)
				if err != nil {
					return err
				}
				_, err = s.TakeOut(ctx, PoolRef{hash: ownedHash(l.Name)}, OutOfService{Position: WholePool}, WithOrigin("flooder"))
				_, unlocked := s.UnlockOwned(ctx, l)
				return errors.Join(err, unlocked)
			}
		}},
		"names used": {ErrMaxTombstones, 0, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, i int) error {
				l, err := lock(ctx, s, i)
				if err != nil {
					return err
				}
				_, err = s.UnlockOwned(ctx, l)
				return err
			}
		}},
		"names of a session": {ErrMaxLocksPerSession, share / 2, func() func(context.Context, *Store, int) error {
			id := ""
			return func(ctx context.Context, s *Store, i int) error {
				err := one(ctx, s, &id)
				if err == nil {
					_, _, err = s.Enqueue(ctx, id, Semaphore(fmt.Sprint("flood-", i), 5), WithTTL(time.Minute))
				}
				return err
			}
		}},
		"sessions": {ErrMaxSessionsPerOrigin, share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error { _, err := session(ctx, s); return err }
		}},
		"sessions ended": {ErrMaxTombstones, 3 * share, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error {
				id, err := session(ctx, s)
				if err == nil {
					err = s.EndSession(ctx, id)
				}
				return err
			}
		}},
		"slots of a semaphore": {ErrNoSlot, share, func() func(context.Context, *Store, int) error {
			id := ""
			return func(ctx context.Context, s *Store, _ int) error {
				err := one(ctx, s, &id)
				if err == nil {
					_, err = s.Acquire(ctx, id, Semaphore("flood", share), WithTTL(time.Minute), WithWait(0))
				}
				return err
			}
		}},
		"places in a line": {ErrMaxWaiters, share + 1, func() func(context.Context, *Store, int) error {
			return func(ctx context.Context, s *Store, _ int) error {
				id, err := session(ctx, s)
				if errors.Is(err, ErrMaxSessionsPerOrigin) { // as many addresses as it takes
					id, _, err = s.CreateSession(ctx, WithIdle(time.Minute))
				}
				if err == nil {
					_, _, err = s.Enqueue(ctx, id, Lock("flood"), WithTTL(time.Minute))
				}
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			cfg := cfg
			cfg.Room = func() error {
				if full.Load() {
					return errors.New("full")
				}
				return nil
			}
			ctx := t.Context()
			s, err := Open(ctx, natstest.Start(t, "").Connect(), cfg)
			natstest.Must(t, err)
			t.Cleanup(func() { _ = s.Close(context.Background()) })
			write, i := kind.write(), 0
			for i < 20_000 && err == nil {
				if err = write(ctx, s, i); err == nil {
					i++
				}
			}
			if !errors.Is(err, kind.limit) || kind.most != 0 && i != kind.most || i < 2 {
				t.Fatalf("refused after %d: %v", i, err)
			}
			end := served(t, s, "other")
			if full.Store(true); !errors.Is(write(ctx, s, i), ErrFull) {
				t.Error("written to a full store")
			}
			end() // what another client has goes on, and ends
			full.Store(false)
			served(t, s, "third")()
		})
	}
}

// served checks that an origin may have one of each kind of entry. The function that it returns
// renews and ends them, for which a full store has room.
func served(t *testing.T, s *Store, origin string) (end func()) {
	t.Helper()
	ctx, from, pool, name := t.Context(), WithOrigin(origin), uuid.New(), "name-of-"+origin
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", origin, err)
		}
	}
	_, err := s.Register(ctx, pool, 2, from)
	must(err)
	lease, err := s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0))
	must(err)
	_, err = s.TakeOut(ctx, ByID(pool), OutOfService{Position: 1}, from)
	must(err)
	id, _, err := s.CreateSession(ctx, from, WithIdle(time.Minute))
	must(err)
	grant, err := s.Acquire(ctx, id, Lock(name), WithTTL(time.Minute), WithWait(0))
	must(err)
	owned, err := s.LockOwned(ctx, name, origin, WithTTL(time.Minute), WithWait(0), from)
	must(err)
	return func() {
		t.Helper()
		_, err := s.Renew(ctx, pool, lease.ID(), time.Minute)
		must(err)
		_, err = s.RenewGrant(ctx, id, Lock(name), grant.Token, time.Minute)
		must(err)
		must(s.Release(ctx, id, Lock(name), grant.Token))
		_, err = s.UnlockOwned(ctx, owned)
		must(err)
		_, err = s.PutBack(ctx, ByID(pool), 1)
		must(err)
		mustReturn(t, s, pool, lease)
		must(s.EndSession(ctx, id))
		must(s.Delete(ctx, pool))
	}
}

// The hashes of addresses in a backup do not tell the addresses.
func TestOriginsOfBuckets(t *testing.T) {
	var hashes []entry.Hash
	srv := natstest.Start(t, "")
	for _, srv := range []*natstest.Server{srv, srv, natstest.Start(t, "")} {
		s := openPeer(t, srv.Connect(), Config{})
		hashes = append(hashes, s.originHash("198.51.100.1"))
	}
	if hashes[0] != hashes[1] || hashes[0] == hashes[2] || hashes[0] == entry.HashOf(entry.OfOrigin, "198.51.100.1") {
		t.Errorf("the hashes of an origin at two stores of a bucket, and at another bucket: %v", hashes)
	}
}
