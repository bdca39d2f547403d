package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// kicked is something that a client holds, and how others end it.
type kicked struct {
	done <-chan struct{}
	err  func() error
	kick func(context.Context, *kvslots.Store) error
	want error
}

// holdLease holds the slot of a new pool. The next renewal is minutes away.
func holdLease(t *testing.T, c *client.Client, kick func(context.Context, *kvslots.Store, *kvslots.Lease, uuid.UUID) error, want error) kicked {
	t.Helper()
	pool := uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 1)))
	lease, err := c.Borrow(t.Context(), pool, kvslots.WithTTL(10*time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	return kicked{lease.Done(), lease.Err, func(ctx context.Context, s *kvslots.Store) error { return kick(ctx, s, lease, pool) }, want}
}

func returnedByOther(ctx context.Context, s *kvslots.Store, l *kvslots.Lease, pool uuid.UUID) error {
	_, err := s.Return(ctx, pool, l.ID())
	return err
}

func poolDeleted(ctx context.Context, s *kvslots.Store, _ *kvslots.Lease, pool uuid.UUID) error {
	return s.Delete(ctx, pool)
}

func evicted(ctx context.Context, s *kvslots.Store, l *kvslots.Lease, pool uuid.UUID) error {
	_, err := s.Evict(ctx, kvslots.ByID(pool), l.Position(), l.Fence())
	return err
}

func newSession(t *testing.T, c *client.Client) *kvslots.Session {
	t.Helper()
	session, err := kvslots.NewSession(t.Context(), c, kvslots.WithIdle(10*time.Minute))
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

func lockedIn(t *testing.T, session *kvslots.Session, name string) *kvslots.Mutex {
	t.Helper()
	m := session.Mutex(name, kvslots.WithTTL(10*time.Minute))
	kvslotstest.Must(t, m.Lock(t.Context()))
	return m
}

// holding returns what clients hold, by name.
var holding = map[string]func(*testing.T, *client.Client) kicked{
	"lease returned": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, returnedByOther, kvslots.ErrNotHeld)
	},
	"pool deleted": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, poolDeleted, kvslots.ErrNoPool)
	},
	"lease evicted": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, evicted, kvslots.ErrEvicted)
	},
	"mutex of an ended session": func(t *testing.T, c *client.Client) kicked {
		session := newSession(t, c)
		m := lockedIn(t, session, uuid.NewString())
		return kicked{m.Done(), m.Err, func(ctx context.Context, s *kvslots.Store) error {
			return s.EndSession(ctx, session.ID())
		}, kvslots.ErrSessionGone}
	},
	"mutex evicted": func(t *testing.T, c *client.Client) kicked {
		name := uuid.NewString()
		m := lockedIn(t, newSession(t, c), name)
		return kicked{m.Done(), m.Err, func(ctx context.Context, s *kvslots.Store) error {
			_, err := s.Evict(ctx, kvslots.ByName(name), 0, m.Fence())
			return err
		}, kvslots.ErrEvicted}
	},
	"semaphore evicted": func(t *testing.T, c *client.Client) kicked {
		name := uuid.NewString()
		m := newSession(t, c).Semaphore(name, 2, kvslots.WithTTL(10*time.Minute))
		kvslotstest.Must(t, m.Lock(t.Context()))
		return kicked{m.Done(), m.Err, func(ctx context.Context, s *kvslots.Store) error {
			_, err := s.Evict(ctx, kvslots.ByName(name), 0, m.Fence())
			return err
		}, kvslots.ErrEvicted}
	},
}

// A holder that reaches a gateway learns within 5 s that others have ended what it holds, long before its next renewal.
func TestHoldersLearnOfTheEnd(t *testing.T) {
	t.Parallel() // waits for seconds
	g := serve(t)
	for over, c := range map[string]*client.Client{"nats": g.overNATS(t), "http": g.overHTTP(t)} {
		for name, hold := range holding {
			t.Run(over+"/"+name, func(t *testing.T) {
				t.Parallel()
				k := hold(t, c)
				kvslotstest.Must(t, k.err())
				began := time.Now()
				kvslotstest.Must(t, k.kick(t.Context(), g.store))
				<-k.done
				if took := time.Since(began); took > time.Minute { // a renewal comes after 100 s
					t.Errorf("it took %v", took)
				}
				if err := k.err(); !errors.Is(err, k.want) {
					t.Errorf("the cause is %v, want %v", err, k.want)
				}
			})
		}
	}
}

// A holder asks by reads, and a renewal saves it one.
func TestReadsOfHolders(t *testing.T) {
	g := serve(t)
	lock, token := kvslots.Lock("a"), "00000000000000000123456789abcdef"
	for over, c := range map[string]*client.Client{"nats": g.overNATS(t), "http": g.overHTTP(t)} {
		t.Run(over, func(t *testing.T) {
			session := newSession(t, c)
			for _, x := range []struct {
				session, token string
				on             kvslots.Resource
				want           error
			}{
				{session.ID(), token, lock, kvslots.ErrNotHeld}, {token, token, lock, kvslots.ErrSessionGone}, {"x", token, lock, kvslots.ErrSessionGone},
			} {
				if _, err := c.GrantHolder(t.Context(), x.session, x.on, x.token); !errors.Is(err, x.want) {
					t.Errorf("%v, want %v", err, x.want)
				}
			}
			if _, err := c.GrantHolder(t.Context(), session.ID(), kvslots.Lock(""), token); err == nil || errors.Is(err, kvslots.ErrNotHeld) {
				t.Error(err)
			}
			for _, on := range []kvslots.Resource{kvslots.Lock(over), kvslots.Semaphore("s"+over, 2)} {
				granted, err := c.Acquire(t.Context(), session.ID(), on, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
				kvslotstest.Must(t, err)
				h, err := c.GrantHolder(t.Context(), session.ID(), on, granted.Token)
				if err != nil || h.Fence != granted.Fence {
					t.Errorf("%+v, %v", h, err)
				}
			}
		})
	}
}
