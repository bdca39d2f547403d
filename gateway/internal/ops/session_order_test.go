package ops

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// waiting returns the number of requests that wait for their turn, or -1 if none is
// being served.
func (t *Turns) waiting(session string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line := t.sessions[session]["k"]; line != nil {
		return line.requests - 1
	}
	return -1
}

func take(t *testing.T, turns *Turns, session string) (done func()) {
	t.Helper()
	done, err := turns.Take(t.Context(), session, "k")
	kvslotstest.Must(t, err)
	return done
}

func TestTurnsKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		first := take(t, turns, "a")
		var order []int
		for i := range 100 {
			go func() {
				done, err := turns.Take(t.Context(), "a", "k")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // a data race if two requests were served at once
				done()
			}()
			synctest.Wait()
		}
		take(t, turns, "b")() // another session does not wait
		other, err := turns.Take(t.Context(), "a", "other key")
		if err != nil {
			t.Error(err)
			return
		}
		other()
		first()
		synctest.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("served in the order %v", order)
			}
		}
		if len(order) != 100 || len(turns.sessions) != 0 {
			t.Errorf("%d were served, %d sessions are remembered", len(order), len(turns.sessions))
		}
	})
}

func TestTurnsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		first := take(t, turns, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		told := make(chan error, 1)
		go func() {
			_, err := turns.Take(ctx, "a", "k")
			told <- err
		}()
		synctest.Wait()
		cancel(wire.ErrDraining)
		if err := <-told; !errors.Is(err, wire.ErrDraining) {
			t.Errorf("got %v", err)
		}
		if n := turns.waiting("a"); n != 0 {
			t.Errorf("%d wait", n)
		}
		first()
		done, err := turns.Take(ctx, "a", "k")
		if err != nil {
			t.Fatalf("a free turn was refused: %v", err)
		}
		done()
	})
}

func TestTurnsOfAnEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		turns.End("a")
		first := take(t, turns, "a")
		told := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := turns.Take(t.Context(), "a", "k")
				told <- err
			}()
		}
		synctest.Wait()
		turns.End("a")
		for range 2 {
			if err := <-told; !errors.Is(err, kvslots.ErrSessionGone) {
				t.Errorf("got %v", err)
			}
		}
		first()
		if n := turns.waiting("a"); n != -1 {
			t.Errorf("%d wait", n)
		}
	})
}

// A request that is canceled at the moment of its turn passes the turn on.
func TestTurnsAreNotLost(t *testing.T) {
	turns := NewTurns()
	for range 2000 {
		first := take(t, turns, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if done, err := turns.Take(ctx, "a", "k"); err == nil {
					done()
				}
			})
		}
		all.Go(cancel)
		all.Go(first)
		all.Wait()
	}
	if len(turns.sessions) != 0 {
		t.Errorf("%d sessions are remembered", len(turns.sessions))
	}
}
