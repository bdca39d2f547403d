package kvslots

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
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

// The time of a lease starts when its caller gets the answer.
func TestLeaseTimeStartsWithTheAnswer(t *testing.T) {
	store, f, pool := openGated(t)
	f.hold()
	granted := make(chan *Lease, 1)
	go func() {
		lease, err := store.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	<-f.queued
	late := time.NewTimer(50 * time.Millisecond) // far less than rules.Slack
	select {
	case <-granted:
		t.Fatal("the lease was answered before it was durable")
	case <-late.C:
	}
	answered := time.Now()
	f.release(nil)
	lease := <-granted
	if lease == nil {
		return
	}
	if lease.TTL() != time.Second {
		t.Errorf("ttl %v", lease.TTL())
	}
	if begun := lease.ExpiresAt().Add(-lease.TTL()); begun.Before(answered) {
		t.Errorf("its time began %v before it was answered", answered.Sub(begun))
	}
	natstest.Must(t, natstest.Err(store.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))))
	if early := time.Until(lease.ExpiresAt()); early > 0 {
		t.Errorf("the slot was lent again %v before the lease's end", early)
	}
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
