package kvslots

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// flushes is a Config.Durable that can hold back its callbacks.
type flushes struct {
	mu     sync.Mutex
	held   bool
	err    error
	queue  []func(error)
	queued chan struct{}
}

func (f *flushes) durable(then func(error)) {
	f.mu.Lock()
	if !f.held {
		err := f.err
		f.mu.Unlock()
		then(err)
		return
	}
	f.queue = append(f.queue, then)
	f.mu.Unlock()
	select {
	case f.queued <- struct{}{}:
	default:
	}
}

func (f *flushes) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
}

// release calls back with err, now and for all later calls.
func (f *flushes) release(err error) {
	f.mu.Lock()
	f.held = false
	queue := f.queue
	f.queue = nil
	f.mu.Unlock()
	for _, then := range queue {
		then(err)
	}
}

func openGated(t *testing.T) (*Store, *flushes, uuid.UUID) {
	t.Helper()
	f := &flushes{queued: make(chan struct{}, 1)}
	store, err := Open(t.Context(), natstest.Start(t, "").Connect(), Config{Logger: logtest.Logger(), Durable: f.durable})
	natstest.Must(t, err)
	t.Cleanup(func() {
		if err := store.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	pool := uuid.New()
	natstest.Must(t, natstest.Err(store.Register(t.Context(), pool, 1)))
	return store, f, pool
}

// The time of a lease starts when its caller gets the answer. What the answer is late by more than rules.Slack is
// deducted; a lease of which less than a second would be left is not lent, and is borrowed again here.
func TestLeaseTimeStartsWithTheAnswer(t *testing.T) {
	const ttl = 3 * time.Second
	store, f, pool := openGated(t)
	var lease *Lease
	for lease == nil {
		asked := time.Now()
		var held time.Time
		if lease, held = borrowHeldBack(t, store, f, pool, ttl); lease == nil {
			continue
		}
		if least := ttl - max(0, time.Since(asked)-rules.Slack); lease.TTL() > ttl || lease.TTL() < least {
			t.Errorf("ttl %v, want between %v and %v", lease.TTL(), least, ttl)
		}
		if begun := lease.ExpiresAt().Add(-lease.TTL()).Sub(held); begun < heldBack/2 {
			t.Errorf("its time began %v after its answer was held back, want at least %v", begun, heldBack/2)
		}
	}
	natstest.Must(t, natstest.Err(store.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))))
	if early := time.Until(lease.ExpiresAt()); early > 0 {
		t.Errorf("the slot was lent again %v before the lease's end", early)
	}
}

const heldBack = 50 * time.Millisecond // far less than rules.Slack

// borrowHeldBack borrows with an answer that is held back from an instant on. The lease is nil if it took too long.
func borrowHeldBack(t *testing.T, store *Store, f *flushes, pool uuid.UUID, ttl time.Duration) (lease *Lease, from time.Time) {
	t.Helper()
	f.hold()
	granted := make(chan *Lease, 1)
	go func() {
		lease, err := store.Borrow(t.Context(), pool, WithFixedTTL(ttl), WithWait(time.Minute))
		if err != nil && !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		granted <- lease
	}()
	<-f.queued
	from = time.Now()
	late := time.NewTimer(heldBack)
	select {
	case <-granted:
		t.Fatal("the lease was answered before it was durable")
	case <-late.C:
	}
	f.release(nil)
	return <-granted, from
}

// Answers to reads are held back, too.
func TestReadsWaitForTheFlush(t *testing.T) {
	store, f, pool := openGated(t)
	f.hold()
	read := make(chan error, 1)
	go func() {
		_, err := store.Inspect(t.Context(), pool)
		read <- err
	}()
	<-f.queued
	select {
	case <-read:
		t.Error("an inspection was answered before it was durable")
	default:
	}
	f.release(nil)
	natstest.Must(t, <-read)
}

// A lease that did not become durable is returned.
func TestFailedFlushGivesBack(t *testing.T) {
	store, f, pool := openGated(t)
	f.hold()
	borrowed := make(chan error, 1)
	go func() {
		_, err := store.Borrow(t.Context(), pool, WithFixedTTL(time.Hour), WithWait(0))
		borrowed <- err
	}()
	<-f.queued
	broken := errors.New("broken")
	f.release(broken)
	if err := <-borrowed; !errors.Is(err, ErrUnavailable) || !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	natstest.Must(t, natstest.Err(store.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))))
}

// A caller does not wait for a flush that hangs after its context has ended, and holds
// nothing then.
func TestContextEndsTheWaitForAFlush(t *testing.T) {
	store, f, pool := openGated(t)
	calls := []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"borrow", func(ctx context.Context) error {
			_, err := store.Borrow(ctx, pool, WithFixedTTL(time.Hour), WithWait(0))
			return err
		}},
		{"inspect", func(ctx context.Context) error {
			_, err := store.Inspect(ctx, pool)
			return err
		}},
		{"register", func(ctx context.Context) error {
			_, err := store.Register(ctx, pool, 1)
			return err
		}},
	}
	hung := errors.New("hung")
	f.hold()
	for _, c := range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.call(ctx) }()
		<-f.queued
		cancel(hung)
		if err := <-done; !errors.Is(err, hung) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
	f.release(nil)
	if _, err := store.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute)); err != nil {
		t.Errorf("the slot is not free: %v", err)
	}
}
