package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// lasting returns a cycle that takes d of virtual time.
func lasting(d time.Duration) cycle {
	return timed(func(context.Context, int) error {
		time.Sleep(d)
		return nil
	})
}

func TestClosedLoop(t *testing.T) {
	for _, c := range []struct {
		name       string
		clients    int
		takes      time.Duration
		operations int64
		elapsed    time.Duration
	}{
		{"one client", 1, 10 * time.Millisecond, 100, time.Second},
		{"three clients", 3, 100 * time.Millisecond, 30, time.Second},
		{"a server that is slow", 4, 900 * time.Millisecond, 12, 2700 * time.Millisecond},
		{"an operation that is longer than the warm-up", 2, 6 * time.Second, 2, 6 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := closedLoop(t.Context(), c.clients, time.Second, lasting(c.takes))
				if s.Operations != c.operations || s.Elapsed != c.elapsed || s.Errors != 0 {
					t.Errorf("%d operations in %v, want %d in %v", s.Operations, s.Elapsed, c.operations, c.elapsed)
				}
				if got := percentile(s.Latency, 50); got < c.takes || got > c.takes+c.takes/500 {
					t.Errorf("p50 %v, want %v", got, c.takes)
				}
			})
		})
	}
}

func TestClosedLoopCountsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("refused")
		s := closedLoop(t.Context(), 1, time.Second, timed(func(context.Context, int) error { return failure }))
		if s.Operations != 0 || s.Errors != 1001 || s.FirstError != failure { // one in a millisecond, for a second
			t.Errorf("%d operations, %d errors, the first %v", s.Operations, s.Errors, s.FirstError)
		}
		if _, err := checked(s); !errors.Is(err, failure) {
			t.Errorf("got %v, want the failure", err)
		}
	})
}

// When ctx ends, closedLoop waits for the cycles in flight and starts no more.
func TestClosedLoopIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		s := closedLoop(ctx, 2, time.Hour, lasting(time.Second))
		if took := time.Since(began); took != 2*time.Second || s.Errors != 0 {
			t.Errorf("it took %v, with %d errors", took, s.Errors)
		}
	})
}

func TestForEach(t *testing.T) {
	failure := errors.New("no")
	begun := make(chan int, 1000)
	err := forEach(1000, func(i int) error {
		begun <- i
		return failure
	})
	if !errors.Is(err, failure) || len(begun) > 64 {
		t.Errorf("%v after %d", err, len(begun))
	}
	if err := forEach(0, func(int) error { return failure }); err != nil {
		t.Error(err)
	}
}
