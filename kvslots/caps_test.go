package kvslots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// waits reports whether a session stands in a line.
func waits(stats Stats, session string) bool {
	return slices.ContainsFunc(stats.Names, func(name NameStats) bool {
		return slices.ContainsFunc(name.Waiters, func(w WaiterStats) bool { return w.Owner == ownerNumber(sessionHash(session)) })
	})
}

// oneSession is the key of the session of a context, which all share.
type oneSession struct{}

// At one peer a cap is exact, however many sessions come at once, and each session that
// leaves makes room for another one.
func TestCaps(t *testing.T) {
	const crowd = 50
	for _, c := range []struct {
		name string
		cfg  Config
		full error
		most int
		// enter is what the i-th session does. It returns a function that undoes it.
		enter func(ctx context.Context, s *Store, session string, i int) (leave func() error, err error)
	}{
		{"locks acquired", Config{MaxLocks: 10}, ErrMaxLocks, 10, func(ctx context.Context, s *Store, session string, i int) (func() error, error) {
			r := Lock(fmt.Sprint("l", i))
			g, err := s.Acquire(ctx, session, r, WithTTL(time.Minute), WithWait(0))
			return func() error { return s.Release(ctx, session, r, g.Token) }, err
		}},
		{"locks enqueued", Config{MaxLocks: 10}, ErrMaxLocks, 10, func(ctx context.Context, s *Store, session string, i int) (func() error, error) {
			r := Semaphore(fmt.Sprint("l", i), 5)
			g, _, err := s.Enqueue(ctx, session, r, WithTTL(time.Minute))
			return func() error { return s.Release(ctx, session, r, g.Token) }, err
		}},
		{"waiters enqueued", Config{MaxWaiters: 7}, ErrMaxWaiters, 7, func(ctx context.Context, s *Store, session string, _ int) (func() error, error) {
			_, _, err := s.Enqueue(ctx, session, Lock("held"), WithTTL(time.Minute))
			return func() error {
				if _, err := s.Wait(ctx, session, Lock("held"), 0); !errors.Is(err, ErrNoSlot) {
					return fmt.Errorf("left the line with %w", err)
				}
				return nil
			}, err
		}},
		{"waiters in Acquire", Config{MaxWaiters: 7}, ErrMaxWaiters, 7, func(ctx context.Context, s *Store, session string, _ int) (func() error, error) {
			ctx, cancel := context.WithCancel(ctx)
			left := make(chan error, 1)
			go func() {
				_, err := s.Acquire(ctx, session, Lock("held"), WithTTL(time.Minute), WithWait(time.Minute))
				left <- err
			}()
			leave := func() error {
				if cancel(); !errors.Is(<-left, context.Canceled) {
					return errors.New("it did not wait")
				}
				return nil
			}
			for {
				select {
				case err := <-left:
					cancel()
					return nil, err
				default:
				}
				if stats, err := s.Stats(ctx); err != nil || waits(stats, session) {
					return leave, err
				}
			}
		}},
		{"sessions", Config{MaxSessions: crowd + 1 + 5}, ErrMaxSessions, 5, func(ctx context.Context, s *Store, _ string, _ int) (func() error, error) {
			id, _, err := s.CreateSession(ctx, WithIdle(time.Minute), WithOrigin("here"))
			return func() error { return s.EndSession(ctx, id) }, err
		}},
		{"sessions of one origin", Config{MaxSessionsPerOrigin: 5}, ErrMaxSessionsPerOrigin, 5, func(ctx context.Context, s *Store, _ string, _ int) (func() error, error) {
			id, _, err := s.CreateSession(ctx, WithIdle(time.Minute), WithOrigin("here"))
			return func() error { return s.EndSession(ctx, id) }, err
		}},
		{"locks of one session", Config{MaxLocksPerSession: 8}, ErrMaxLocksPerSession, 8, func(ctx context.Context, s *Store, session string, i int) (func() error, error) {
			one, _ := ctx.Value(oneSession{}).(string)
			r := Lock(fmt.Sprint("l", i))
			g, err := s.Acquire(ctx, one, r, WithTTL(time.Minute), WithWait(0))
			return func() error { return s.Release(ctx, one, r, g.Token) }, err
		}},
		{"locks of one origin", Config{MaxLocksPerOrigin: 8}, ErrMaxLocksPerOrigin, 8, func(ctx context.Context, s *Store, session string, i int) (func() error, error) {
			if i%2 == 0 {
				lock, err := s.LockOwned(ctx, fmt.Sprint("l", i), "me", WithTTL(time.Minute), WithWait(0), WithOrigin("here"))
				return func() error { _, err := s.UnlockOwned(ctx, lock); return err }, err
			}
			g, _, err := s.Enqueue(ctx, session, Lock(fmt.Sprint("l", i)), WithTTL(time.Minute))
			return func() error { return s.Release(ctx, session, Lock(fmt.Sprint("l", i)), g.Token) }, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := natstest.Start(t, "")
			ctx := context.Background()
			s, err := Open(ctx, srv.Connect(), c.cfg)
			natstest.Must(t, err)
			defer func() { _ = s.Close(ctx) }()
			var sessions []string
			for range crowd + 1 {
				origin := ""
				if c.cfg.MaxLocksPerOrigin > 0 {
					origin = "here"
				}
				id, _, err := s.CreateSession(ctx, WithIdle(time.Minute), WithOrigin(origin))
				natstest.Must(t, err)
				sessions = append(sessions, id)
			}
			ctx = context.WithValue(ctx, oneSession{}, sessions[0])
			if c.cfg.MaxLocks+c.cfg.MaxLocksPerSession+c.cfg.MaxLocksPerOrigin == 0 {
				mustHold(t, s, sessions[crowd], Lock("held"))
			}
			for round := range 3 {
				var mu sync.Mutex
				var leave []func() error
				var wg sync.WaitGroup
				for i := range crowd {
					wg.Go(func() {
						l, err := c.enter(ctx, s, sessions[i], i)
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							leave = append(leave, l)
						} else if !errors.Is(err, c.full) {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if len(leave) != c.most {
					t.Errorf("round %d: %d came in, not %d", round, len(leave), c.most)
				}
				for _, l := range leave {
					if err := l(); err != nil {
						t.Error(err)
					}
				}
				inLine(t, s, Lock("held"), 0)
			}
			endAll(t, s, sessions...)
			noRemains(t, srv, s)
		})
	}
}

// The shares of a session and of an origin are of the names that they hold or wait for, and other sessions and origins have shares of their own.
func TestShares(t *testing.T) {
	srv := natstest.Start(t, "")
	s, err := Open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger(), MaxLocksPerSession: 2, MaxLocksPerOrigin: 3})
	natstest.Must(t, err)
	defer func() { _ = s.Close(context.Background()) }()
	var sessions []string
	for _, origin := range []string{"here", "here", "there", ""} {
		id, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute), WithOrigin(origin))
		natstest.Must(t, err)
		sessions = append(sessions, id)
	}
	here, too, there, nowhere := sessions[0], sessions[1], sessions[2], sessions[3]
	mustHold(t, s, there, Lock("busy"))
	one := mustHold(t, s, here, Lock("one"))
	if _, acquired, err := s.Enqueue(t.Context(), here, Lock("busy"), WithTTL(time.Minute)); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	_, err = s.Acquire(t.Context(), here, Lock("free"), WithTTL(time.Minute), WithWait(time.Minute))
	wantErr(t, err, ErrMaxLocksPerSession)
	_, _, err = s.Enqueue(t.Context(), here, Semaphore("free", 2), WithTTL(time.Minute))
	wantErr(t, err, ErrMaxLocksPerSession)
	_, err = s.Acquire(t.Context(), here, Lock("one"), WithTTL(time.Minute), WithWait(0)) // a further place in a line of its own
	wantErr(t, err, ErrNoSlot)
	for range 5 { // one name
		mustHold(t, s, too, Semaphore("two", 5))
	}
	_, err = s.Acquire(t.Context(), too, Lock("free"), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrMaxLocksPerOrigin)
	_, err = s.LockOwned(t.Context(), "free", "me", WithTTL(time.Minute), WithWait(time.Minute), WithOrigin("here"))
	wantErr(t, err, ErrMaxLocksPerOrigin)
	mustLetGo(t, s, here, Lock("one"), one)
	if _, err := s.LockOwned(t.Context(), "free", "me", WithTTL(time.Minute), WithWait(0), WithOrigin("here")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(t.Context(), here, Lock("free"), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrMaxLocksPerOrigin)
	mustHold(t, s, there, Lock("free"))
	for i := range 2 { // no origin has no share, a session has
		mustHold(t, s, nowhere, Lock(fmt.Sprint("n", i)))
	}
	endAll(t, s, sessions...)
	mustHold(t, s, newSession(t, s, time.Minute), Lock("free"))
	if _, err := s.LockOwned(t.Context(), "another", "me", WithTTL(time.Minute), WithWait(0), WithOrigin("here")); err != nil {
		t.Fatal(err)
	}
}

// The caps count what sessions hold and wait for, not their attempts.
func TestCapsLetPass(t *testing.T) {
	srv := natstest.Start(t, "")
	s, err := Open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger(), MaxLocks: 1, MaxWaiters: 1, MaxSessionsPerOrigin: 1})
	natstest.Must(t, err)
	defer func() { _ = s.Close(context.Background()) }()
	var sessions []string
	for range 4 { // of no origin
		sessions = append(sessions, newSession(t, s, time.Minute))
	}
	for _, origin := range []string{"here", "there"} {
		id, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute), WithOrigin(origin))
		natstest.Must(t, err)
		sessions = append(sessions, id)
	}
	// A cap on waiters does not limit holders, and a cap on names does not limit the
	// sessions that share a name.
	one := mustHold(t, s, sessions[0], Semaphore("k", 2))
	mustHold(t, s, sessions[1], Semaphore("k", 2))
	_, err = s.Acquire(t.Context(), sessions[2], Semaphore("k", 2), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrNoSlot)
	if _, acquired, err := s.Enqueue(t.Context(), sessions[2], Semaphore("k", 2), WithTTL(time.Minute)); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	_, _, err = s.Enqueue(t.Context(), sessions[3], Semaphore("k", 2), WithTTL(time.Minute))
	wantErr(t, err, ErrMaxWaiters)
	_, err = s.Acquire(t.Context(), sessions[3], Lock("other"), WithTTL(time.Minute), WithWait(time.Minute))
	wantErr(t, err, ErrMaxLocks)
	mustLetGo(t, s, sessions[0], Semaphore("k", 2), one)
	if _, err := s.Wait(t.Context(), sessions[2], Semaphore("k", 2), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, acquired, err := s.Enqueue(t.Context(), sessions[3], Semaphore("k", 2), WithTTL(time.Minute)); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	endAll(t, s, sessions...)
	mustHold(t, s, newSession(t, s, time.Minute), Lock("other"))
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Sessions != 1 || len(stats.Names) != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
}
