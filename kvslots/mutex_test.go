package kvslots

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func newKept(t *testing.T, at Service, opts ...Option) *Session {
	t.Helper()
	s, err := NewSession(t.Context(), at, opts...)
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestMutexExcludes(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	var sessions []*Session
	for _, s := range peers {
		sessions = append(sessions, newKept(t, s))
	}
	var inside atomic.Int32
	var last uint64
	var done sync.WaitGroup
	for i := range 8 {
		m := sessions[i%2].Mutex("deploy") // four sessions' worth of callers share two Mutexes' names
		done.Go(func() {
			for range 5 {
				if err := m.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				if f := m.Fence(); f <= last {
					t.Errorf("fence %d after %d", f, last)
				} else {
					last = f
				}
				inside.Add(-1)
				if err := m.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
}

func TestTryLockAndSemaphore(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	one, two := newKept(t, s), newKept(t, s)
	a, b, c := one.Semaphore("s", 2), one.Semaphore("s", 2), two.Semaphore("s", 2)
	for i, m := range []*Mutex{a, b, c} {
		if err := m.TryLock(t.Context()); (err == nil) != (i < 2) || err != nil && !errors.Is(err, ErrNoSlot) {
			t.Errorf("slot %d: %v", i, err)
		}
	}
	wantErr(t, a.TryLock(t.Context()), ErrNoSlot)
	wantText := func(name string, err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrNoSlot) || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	wantText("a slot by name", c.TryLock(t.Context()), `^s: taken by an unnamed holder, for [0-9]+s; place 1 in the line$`)
	held := one.Mutex("nightly", WithLabel("ci@b7:12 make"))
	natstest.Must(t, held.Lock(t.Context()))
	wantText("a lock", two.Mutex("nightly").TryLock(t.Context()), `^nightly: taken by ci@b7:12 make, for [0-9]+s; place 1 in the line$`)
	wantText("within the program", held.TryLock(t.Context()), "^nightly: taken by another caller of this Mutex")
	_, err := s.TakeOut(t.Context(), ByName("nightly"), OutOfService{Position: WholePool, Reason: "examined"})
	natstest.Must(t, err)
	wantText("paused", two.Mutex("nightly", WithWait(0)).Lock(t.Context()), `^nightly: paused: examined; place 1 in the line$`)
	natstest.Must(t, two.With(t.Context(), "other", func(_ context.Context, fence uint64) error {
		if fence == 0 {
			t.Error("no fence")
		}
		return nil
	}))
	if err := a.Unlock(t.Context()); err != nil || a.Fence() != 0 {
		t.Error(err)
	}
	wantErr(t, a.Unlock(t.Context()), ErrNotHeld)
	natstest.Must(t, c.TryLock(t.Context()))
}

// The holder learns that it has lost the lock, and why.
func TestMutexLost(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(t *testing.T, s *Store, session *Session, m *Mutex)
		want error
	}{
		{"released by its token", func(t *testing.T, s *Store, session *Session, m *Mutex) {
			natstest.Must(t, s.Release(t.Context(), session.ID(), Lock("x"), m.held.grant.Token))
		}, ErrNotHeld},
		{"session ended", func(t *testing.T, s *Store, session *Session, _ *Mutex) {
			natstest.Must(t, s.EndSession(t.Context(), session.ID()))
		}, ErrSessionGone},
		{"session closed", func(t *testing.T, _ *Store, session *Session, _ *Mutex) { natstest.Must(t, session.Close(t.Context())) }, sessionClosed{}},
		{"store closed", func(t *testing.T, s *Store, _ *Session, _ *Mutex) { _ = s.Close(t.Context()) }, ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openPeers(t, natstest.Start(t, ""), 1)[0]
			session, err := NewSession(t.Context(), s, WithIdle(3*time.Second))
			natstest.Must(t, err)
			m := session.Mutex("x", WithTTL(3*time.Second))
			natstest.Must(t, m.Lock(t.Context()))
			ctx, cancel := m.Context(t.Context())
			defer cancel()
			ended, ends := m.Done(), m.held.ExpiresAt()
			c.lose(t, s, session, m)
			<-ctx.Done()
			if c.want == ErrUnavailable { // the lease has run out
				if !time.Now().Before(ends.Add(3 * time.Second)) {
					t.Log("late, on a slow machine")
				}
			} else {
				wantErr(t, context.Cause(ctx), c.want)
			}
			<-ended
			if m.Err() == nil {
				t.Error("no error after the loss")
			}
			if err := m.Unlock(t.Context()); err == nil {
				t.Error("unlocked a lock that was lost")
			}
		})
	}
}

// The context of the work under a lease ends before the lease, if nothing renews that.
func TestContextEndsBeforeTheLease(t *testing.T) {
	besideOthers(t)
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	pool := newPool(t, s, 1)
	l, err := s.Borrow(t.Context(), pool, WithFixedTTL(2*time.Second), WithWait(0))
	natstest.Must(t, err)
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	if err := l.Renew(t.Context(), 3*time.Second); err != nil { // the warning moves with the deadline
		t.Fatal(err)
	}
	<-ctx.Done()
	if left := time.Until(l.ExpiresAt()); left > 400*time.Millisecond {
		t.Errorf("ended %v before the lease", left)
	}
	wantErr(t, context.Cause(ctx), ErrNotHeld)
	if l.Err() != nil && time.Now().Before(l.ExpiresAt()) {
		t.Error("the lease had ended")
	}
	<-l.Done()
	wantErr(t, l.Err(), ErrNotHeld)
}

func TestWith(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	pool := newPool(t, s, 1)
	failure := errors.New("failure of the work")
	err := With(t.Context(), s, pool, func(ctx context.Context, l *Lease) error {
		wantState(t, s, pool, State{Count: 1, InUse: 1})
		return failure
	})
	wantErr(t, err, failure)
	wantState(t, s, pool, State{Count: 1, Available: 1})
	err = With(t.Context(), s, pool, func(ctx context.Context, l *Lease) error {
		if _, err := s.Return(t.Context(), pool, l.ID()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	wantErr(t, err, ErrNotHeld)
	mustBorrow(t, s, pool)
	wantErr(t, With(t.Context(), s, pool, nil, WithWait(0)), ErrNoSlot)
}

// A Lock that is given up leaves nothing behind.
func TestLockGivenUp(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	m, o := newKept(t, s).Mutex("x"), newKept(t, s).Mutex("x")
	natstest.Must(t, m.Lock(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantErr(t, o.Lock(ctx), context.DeadlineExceeded)
	natstest.Must(t, m.Unlock(t.Context()))
	natstest.Must(t, o.TryLock(t.Context()))
}
