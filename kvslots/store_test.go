package kvslots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// openPeers opens n peers on one server. They are closed with the test.
func openPeers(t testing.TB, srv *natstest.Server, n int) []*Store {
	t.Helper()
	var stores []*Store
	for range n {
		stores = append(stores, openPeer(t, srv.Connect(), Config{}))
	}
	return stores
}

// openPeer opens a peer on a connection. It is closed with the test.
func openPeer(t testing.TB, nc *nats.Conn, cfg Config) *Store {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = logtest.Logger()
	}
	s, err := Open(t.Context(), nc, cfg)
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// together runs n tests concurrently.
func together(t *testing.T, n int, run func(t *testing.T, i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { t.Run(fmt.Sprint(i), func(t *testing.T) { run(t, i) }) })
	}
	wg.Wait()
}

// newPool registers a pool of count slots.
func newPool(t testing.TB, s *Store, count int) uuid.UUID {
	t.Helper()
	pool := uuid.New()
	natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, count)))
	return pool
}

func mustBorrow(t testing.TB, s *Store, pool uuid.UUID) *Lease {
	t.Helper()
	l, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	return l
}

func mustReturn(t testing.TB, s *Store, pool uuid.UUID, l *Lease) {
	t.Helper()
	if ok, err := s.Return(t.Context(), pool, l.ID()); !ok || err != nil {
		t.Fatalf("return: %v, %v", ok, err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// wantState checks a pool's state. It waits for the line, since a view that skipped entries
// of a slot shows a ticket that has been served until its peer has purged it.
func wantState(t testing.TB, s *Store, pool uuid.UUID, want State) {
	t.Helper()
	var got State
	var err error
	eventually(t, "the line is as long", func() bool {
		got, err = s.Inspect(t.Context(), pool)
		return err != nil || got.Waiting == want.Waiting
	})
	if err != nil || got != want {
		t.Fatalf("inspect: %+v, %v; want %+v", got, err, want)
	}
}

func TestLowestFirst(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	a, b := peers[0], peers[1]
	pool := newPool(t, a, 4)
	var held []*Lease
	for i := range 4 {
		l := mustBorrow(t, peers[i%2], pool)
		if l.Position() != i {
			t.Fatalf("borrow %d got position %d", i, l.Position())
		}
		held = append(held, l)
	}
	_, err := b.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrNoSlot)
	mustReturn(t, b, pool, held[2])
	mustReturn(t, b, pool, held[1])
	if l := mustBorrow(t, a, pool); l.Position() != 1 || l.Fence() <= held[3].Fence() {
		t.Fatalf("got position %d and fence %d after %d", l.Position(), l.Fence(), held[3].Fence())
	}
	wantState(t, a, pool, State{Count: 4, InUse: 3, Available: 1})
	wantState(t, b, pool, State{Count: 4, InUse: 3, Available: 1})
}

func TestReturnTwice(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 1)
	l := mustBorrow(t, peers[0], pool)
	mustReturn(t, peers[1], pool, l)
	for _, s := range peers {
		if ok, err := s.Return(t.Context(), pool, l.ID()); ok || err != nil {
			t.Fatalf("second return: %v, %v", ok, err)
		}
		_, err := s.Renew(t.Context(), pool, l.ID(), time.Second)
		wantErr(t, err, ErrNotHeld)
		_, err = s.Return(t.Context(), uuid.New(), l.ID())
		wantErr(t, err, ErrNoPool)
	}
}

// After a pool has shrunk, a free low position is not lent while leases above it fill the
// count, at whichever peer and however old its view is.
func TestShrink(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 3)
	for round := range 30 {
		at := func(i int) *Store { return peers[(round+i)%len(peers)] }
		pool := newPool(t, at(0), 4)
		var held []*Lease
		for i := range 4 {
			held = append(held, mustBorrow(t, at(i), pool))
		}
		state, err := at(1).Register(t.Context(), pool, 2)
		if want := (State{Count: 2, InUse: 4}); err != nil || state != want {
			t.Fatalf("shrunk: %+v, %v; want %+v", state, err, want)
		}
		if state.Available != 0 {
			t.Fatalf("available is %d", state.Available)
		}
		for i, l := range []*Lease{held[0], held[1], held[3]} { // 2 is the straggler
			for _, s := range peers {
				_, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
				wantErr(t, err, ErrNoSlot)
			}
			mustReturn(t, at(i), pool, l)
		}
		if l := mustBorrow(t, at(2), pool); l.Position() != 0 {
			t.Fatalf("got position %d", l.Position())
		}
		_, err = at(0).Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0))
		wantErr(t, err, ErrNoSlot)
	}
}

func TestDeleteEndsAll(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 3)
	pool := newPool(t, peers[0], 1)
	l := mustBorrow(t, peers[1], pool)
	waiter := make(chan error, 3)
	for _, s := range peers {
		go func() {
			_, err := s.Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			waiter <- err
		}()
	}
	eventually(t, "all wait", func() bool {
		state, err := peers[0].Inspect(t.Context(), pool)
		return err == nil && state.Waiting == 3
	})
	for range 2 {
		natstest.Must(t, peers[2].Delete(t.Context(), pool))
	}
	for range peers {
		wantErr(t, <-waiter, ErrNoPool)
	}
	for _, s := range peers {
		_, err := s.Return(t.Context(), pool, l.ID())
		wantErr(t, err, ErrNoPool)
		_, err = s.Inspect(t.Context(), pool)
		wantErr(t, err, ErrNoPool)
	}
	natstest.Must(t, natstest.Err(peers[1].Register(t.Context(), pool, 1)))
	if ok, err := peers[0].Return(t.Context(), pool, l.ID()); ok || err != nil {
		t.Fatalf("an old lease was returned to a new pool: %v, %v", ok, err)
	}
	if again := mustBorrow(t, peers[0], pool); again.Position() != 0 || again.Fence() <= l.Fence() {
		t.Fatalf("got position %d and fence %d after %d", again.Position(), again.Fence(), l.Fence())
	}
}

func TestRaisedCountWakes(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 3)
	pool := newPool(t, peers[0], 0)
	const waiters = 9
	got := make(chan int, waiters)
	for i := range waiters {
		go func() {
			l, err := peers[i%3].Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			if err != nil {
				t.Error(err)
				got <- -1
				return
			}
			got <- l.Position()
		}()
	}
	eventually(t, "all wait", func() bool {
		state, _ := peers[0].Inspect(t.Context(), pool)
		return state.Waiting == waiters
	})
	natstest.Must(t, natstest.Err(peers[1].Register(t.Context(), pool, waiters)))
	seen := map[int]bool{}
	for range waiters {
		seen[<-got] = true
	}
	for i := range waiters {
		if !seen[i] {
			t.Errorf("position %d was not lent", i)
		}
	}
}

// A canceled borrow leaves no ticket and no slot.
func TestGivingUp(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 1)
	for i := range 200 {
		l := mustBorrow(t, peers[0], pool)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan *Lease, 1)
		go func() {
			l, err := peers[1].Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			done <- l
		}()
		eventually(t, "a borrower waits", func() bool {
			state, _ := peers[0].Inspect(t.Context(), pool)
			return state.Waiting == 1
		})
		if i%2 == 0 {
			go cancel()
			mustReturn(t, peers[0], pool, l)
		} else {
			cancel()
			mustReturn(t, peers[0], pool, l)
		}
		if won := <-done; won != nil {
			mustReturn(t, peers[1], pool, won)
		}
		cancel()
		eventually(t, "nothing is left", func() bool {
			state, _ := peers[0].Inspect(t.Context(), pool)
			return state == State{Count: 1, Available: 1}
		})
	}
}

func TestRanges(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	pool := newPool(t, s, 1)
	ctx := t.Context()
	for _, c := range []struct {
		name, field string
		call        func() error
	}{
		{"count too low", "count", func() error { _, err := s.Register(ctx, pool, -1); return err }},
		{"count too high", "count", func() error { _, err := s.Register(ctx, pool, MaxCount+1); return err }},
		{"no ttl", "ttl", func() error { _, err := s.Borrow(ctx, pool, WithFixedTTL(0), WithWait(0)); return err }},
		{"short ttl", "ttl", func() error { _, err := s.Borrow(ctx, pool, WithFixedTTL(time.Second-1), WithWait(0)); return err }},
		{"negative wait", "wait", func() error { _, err := s.Borrow(ctx, pool, WithFixedTTL(time.Second), WithWait(-1)); return err }},
		{"long label", "label", func() error {
			_, err := s.Borrow(ctx, pool, WithFixedTTL(time.Second), WithWait(0), WithLabel(string(make([]byte, MaxLabel+1))))
			return err
		}},
		{"renewal without ttl", "ttl", func() error { _, err := s.Renew(ctx, pool, uuid.New(), 0); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out *RangeError
			if err := c.call(); !errors.As(err, &out) || out.Field != c.field {
				t.Fatalf("got %v", err)
			}
		})
	}
	l, err := s.Borrow(ctx, pool, WithFixedTTL(1000*time.Hour), WithWait(0))
	if err != nil || l.TTL() != DefaultMaxTTL {
		t.Fatalf("got a ttl of %v, %v", l.TTL(), err)
	}
}

func TestWrongBucket(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*jetstream.StreamConfig)
	}{
		{"history", "max_msgs_per_subject is 5, not 1", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }},
		{"memory", `storage is "memory", not "file"`, func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"no ttl", "allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = false, 0 }},
		{"first sequence", "first_seq", func(c *jetstream.StreamConfig) { c.FirstSeq = 0 }},
		{"no format", "a restore of it was interrupted: repeat kvslots restore", func(c *jetstream.StreamConfig) { c.Metadata = nil }},
		{"an earlier format", "has format 0, and this kvslots works with format 1: make a backup", func(c *jetstream.StreamConfig) { c.Metadata["kvslots-format"] = "0" }},
		{"a later format", `has the format "2", and this kvslots works with format 1: use a later kvslots`, func(c *jetstream.StreamConfig) { c.Metadata["kvslots-format"] = "2" }},
		{"a text as format", `has the format "x"`, func(c *jetstream.StreamConfig) { c.Metadata["kvslots-format"] = "x" }},
		{"max age", "max_age is 1h0m0s, not 0s", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Each case has its own server: creating a stream sometimes fails while one of
			// the same name is being deleted.
			nc := natstest.Start(t, "").Connect()
			js := natstest.JetStream(t, nc)
			cfg := bucket.StreamConfig(1)
			c.change(&cfg)
			natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), cfg)))
			_, err := Open(t.Context(), nc, Config{Logger: logtest.Logger()})
			wantErr(t, err, bucket.ErrWrongBucket)
			if !containsText(err, c.want) {
				t.Fatalf("the error does not name %s: %v", c.want, err)
			}
		})
	}
}
