package ops

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// slowReads is a store that takes a second for each list and each page of statistics.
type slowReads struct {
	Sessions
	open, reads, together atomic.Int32
}

func (s *slowReads) read() {
	if s.open.Add(1) > 1 {
		s.together.Add(1)
	}
	defer s.open.Add(-1)
	s.reads.Add(1)
	<-time.After(time.Second)
}

func (s *slowReads) StatsPage(ctx context.Context, page kvslots.PoolPage) (kvslots.Stats, error) {
	if page.After == "panic" {
		panic("a fault of the store")
	}
	s.read()
	return kvslots.Stats{}, ctx.Err()
}

func (s *slowReads) ReadPools(ctx context.Context, q kvslots.PoolQuery) ([]kvslots.PoolStats, string, error) {
	s.read()
	return nil, q.Match, ctx.Err()
}

// fromClient is a request of a client.
type fromClient struct {
	Request
	client string
}

func (f fromClient) Origins() iter.Seq[string] {
	return func(yield func(string) bool) { yield(f.client) }
}

type readFixture struct {
	store   *slowReads
	service *Service
}

func newReadFixture() readFixture {
	store := &slowReads{}
	return readFixture{store, &Service{Sessions: store, Operator: store, Lending: NewLending()}}
}

func (f readFixture) stats(ctx context.Context, client, after string) error {
	call := &Call{Operation: Stats, Request: fromClient{client: client}}
	call.PoolsAfter = after
	return f.service.Do(ctx, ctx, call, func() {})
}

func (f readFixture) list(ctx context.Context, client, match string) error {
	call := &Call{Operation: ListPools, Request: fromClient{client: client}}
	call.Operator = &wire.OperatorParams{Query: kvslots.PoolQuery{Max: 1, Match: match}}
	err := f.service.Do(ctx, ctx, call, func() {})
	if answer, ok := call.Answer.(wire.PoolList); err == nil && (!ok || answer.Next != match) {
		err = errors.New("the answer of another list")
	}
	return err
}

// A client that asks for many lists at once, half of them the same ones, delays another client by two of them, with the pauses
// behind them; and the store has half of the time for other calls.
func TestReadsTakeTurnsByClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newReadFixture()
		began := time.Now()
		var refused atomic.Int32
		for i := range 300 {
			go func() {
				for n := 0; time.Since(began) < time.Minute; n++ {
					switch err := f.list(t.Context(), "crowd", strconv.Itoa(i%2*i)+"-"+strconv.Itoa(i%2*n)); {
					case errors.Is(err, wire.ErrMaxReads):
						refused.Add(1)
						<-time.After(time.Second)
					case err != nil:
						t.Error(err)
					}
				}
			}()
		}
		<-time.After(10500 * time.Millisecond)
		for range 5 {
			asked := time.Now()
			if err := f.stats(t.Context(), "honest", ""); err != nil {
				t.Error(err)
			}
			if took := time.Since(asked); took > 5*time.Second {
				t.Errorf("another client's statistics take %v", took)
			}
		}
		<-time.After(time.Until(began.Add(65 * time.Second)))
		synctest.Wait()
		if n := f.store.reads.Load(); n > 32 || n < 28 || f.store.together.Load() > 0 {
			t.Errorf("%d reads in a minute, %d together with others", n, f.store.together.Load())
		}
		if n := refused.Load(); n < 300*50 {
			t.Errorf("%d are refused", n)
		}
	})
}

// Callers that wait for the same read share one; a read that has begun is too old for a new caller.
func TestReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newReadFixture()
		ask := func(client string) {
			go func() {
				if err := f.stats(t.Context(), client, ""); err != nil {
					t.Error(err)
				}
			}()
		}
		ask("first")
		<-time.After(time.Second / 2)
		for i := range 100 {
			ask(strconv.Itoa(i % 10))
		}
		<-time.After(2 * time.Second) // the second one ends at 3 s
		if n := f.store.reads.Load(); n != 2 {
			t.Errorf("%d reads", n)
		}
		<-time.After(2 * time.Second)
	})
}

// A caller that gives up, or whose read panics, does not keep the turn.
func TestReadsPassTheTurnOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, f readFixture)
		reads int32
	}{
		{"given up while queued", func(t *testing.T, f readFixture) {
			go f.list(t.Context(), "a", "")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			if err := f.list(ctx, "b", "x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}, 2},
		{"given up while it is performed", func(t *testing.T, f readFixture) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			go f.list(ctx, "a", "x")
			synctest.Wait()
			go f.list(t.Context(), "b", "x")
			<-time.After(time.Second)
		}, 3},
		{"panic", func(t *testing.T, f readFixture) {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = f.stats(t.Context(), "a", "panic")
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newReadFixture()
				c.begin(t, f)
				if err := f.list(t.Context(), "c", "y"); err != nil {
					t.Error(err)
				}
				if n := f.store.reads.Load(); n != c.reads {
					t.Errorf("%d reads, want %d", n, c.reads)
				}
				<-time.After(5 * time.Second)
				if r := &f.service.Lending.Reads; r.busy || len(r.queued) > 0 {
					t.Error("a turn is still taken")
				}
			})
		})
	}
}
