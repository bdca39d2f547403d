package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestPools(t *testing.T) {
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		if _, err := c.Inspect(ctx, pool); !errors.Is(err, kvslots.ErrNoPool) {
			t.Errorf("inspect: %v", err)
		}
		state, err := c.Register(ctx, pool, 1)
		if err != nil || state != (kvslots.State{Count: 1, Available: 1}) {
			t.Fatalf("register: %+v, %v", state, err)
		}
		before := time.Now()
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(29500*time.Millisecond), kvslots.WithWait(0))
		kvslotstest.Must(t, err)
		if lease.Position() != 0 || lease.TTL() != 30*time.Second || lease.Fence() == 0 || lease.ID() == uuid.Nil {
			t.Errorf("borrowed %v for %v, fence %d", lease.Position(), lease.TTL(), lease.Fence())
		}
		if ends := lease.ExpiresAt(); ends.Before(before.Add(30*time.Second)) || ends.After(time.Now().Add(30*time.Second)) {
			t.Errorf("expires at %v", ends)
		}
		if _, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(time.Second)); !errors.Is(err, kvslots.ErrNoSlot) {
			t.Errorf("borrow: %v", err)
		}
		renewed, err := c.Renew(ctx, pool, lease.ID(), time.Minute)
		if err != nil || renewed.TTL() != time.Minute || renewed.Fence() != lease.Fence() {
			t.Errorf("renew: %+v, %v", renewed, err)
		}
		if err := lease.Renew(ctx, 2*time.Minute); err != nil || lease.TTL() != 2*time.Minute {
			t.Errorf("renew: %v, %v", lease.TTL(), err)
		}
		if state, err := c.Inspect(ctx, pool); err != nil || state != (kvslots.State{Count: 1, InUse: 1}) {
			t.Errorf("inspect: %+v, %v", state, err)
		}
		for _, want := range []bool{true, false} {
			if got, err := c.Return(ctx, pool, lease.ID()); got != want || err != nil {
				t.Errorf("return: %v, %v", got, err)
			}
		}
		if _, err := c.Renew(ctx, pool, lease.ID(), time.Minute); !errors.Is(err, kvslots.ErrNotHeld) {
			t.Errorf("renew: %v", err)
		}
		if err := errors.Join(c.Delete(ctx, pool), c.Delete(ctx, pool)); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := c.Return(ctx, pool, lease.ID()); !errors.Is(err, kvslots.ErrNoPool) {
			t.Errorf("return: %v", err)
		}
	})
}

func TestRanges(t *testing.T) {
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		for field, call := range map[string]func() error{
			"count": func() error { _, err := c.Register(ctx, pool, 1001); return err },
			"ttl":   func() error { _, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(0), kvslots.WithWait(0)); return err },
			"wait": func() error {
				_, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(-1))
				return err
			},
			"label": func() error {
				_, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(0), kvslots.WithLabel(strings.Repeat("x", 10000)))
				return err
			},
		} {
			wrong, ok := errors.AsType[*kvslots.RangeError](call())
			if !ok || wrong.Field != field || wrong.Range == "" {
				t.Errorf("%s: %+v", field, wrong)
			}
		}
	})
}

// The time of a lease that was waited for starts when it was granted.
func TestBorrowWaits(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(ctx, pool, 0)))
		sent := time.Now()
		granted := make(chan *kvslots.Lease, 1)
		go func() {
			lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(30*time.Second), kvslots.WithWait(time.Minute))
			if err != nil {
				t.Error(err)
			}
			granted <- lease
		}()
		g.inLine(t, pool, 1)
		travelled := time.Since(sent) // at most, to the gateway; the client does not know how long
		kvslotstest.Eventually(t, "it has waited for much longer", func() bool { return time.Since(sent) > 10*travelled })
		freed := time.Now()
		kvslotstest.Must(t, kvslotstest.Err(g.store.Register(ctx, pool, 1)))
		lease := <-granted
		if lease == nil {
			return
		}
		began := lease.ExpiresAt().Add(-lease.TTL())
		if began.Before(freed.Add(-travelled-time.Millisecond)) || began.After(time.Now()) {
			t.Errorf("counted from %v, but the slot was free at %v, and the answer came before %v", began, freed, time.Now())
		}
	})
}

// A lease is renewed over its transport until a renewal is refused.
func TestLeaseRenewsItself(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		t.Parallel()
		ctx, pool := t.Context(), uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(ctx, pool, 1)))
		lease, err := c.Borrow(ctx, pool, kvslots.WithTTL(6*time.Second), kvslots.WithWait(0)) // renewed after a third of its time
		kvslotstest.Must(t, err)
		ends := lease.ExpiresAt()
		kvslotstest.Eventually(t, "the lease is renewed", func() bool { return lease.ExpiresAt().After(ends) })
		kvslotstest.Must(t, kvslotstest.Err(g.store.Return(ctx, pool, lease.ID())))
		<-lease.Done()
	})
}

var errGone = errors.New("gone")

// inLine waits until the line of a pool has that many waiters and all slots are free.
func (g *gateways) inLine(t *testing.T, pool uuid.UUID, want int) {
	t.Helper()
	kvslotstest.Eventually(t, "the pool has its line", func() bool {
		state, err := g.store.Inspect(t.Context(), pool)
		return err == nil && state.Waiting == want && state.InUse == 0
	})
}

// A client that gives up leaves the line, however often.
func TestBorrowGivesUp(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		pool := uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 0)))
		for range 10 {
			ctx, cancel := context.WithCancelCause(t.Context())
			told := make(chan error, 1)
			go func() {
				_, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute))
				told <- err
			}()
			g.inLine(t, pool, 1)
			cancel(errGone)
			if err := <-told; !errors.Is(err, errGone) {
				t.Fatalf("got %v", err)
			}
			g.inLine(t, pool, 0)
		}
	})
}

// Over NATS nothing stays held if the answer crosses the cancellation. Over HTTP the
// gateway cannot know that its answer was not read.
func TestBorrowGivesUpWhatIsOnItsWay(t *testing.T) {
	g := serve(t)
	c, pool := g.overNATS(t), uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 1)))
	for i := range 50 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*50*time.Microsecond, errGone)
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(10*time.Minute), kvslots.WithWait(time.Minute))
		cancel()
		if err == nil {
			_, err = lease.Return(t.Context())
		}
		if err != nil && !errors.Is(err, errGone) {
			t.Fatal(err)
		}
	}
	g.inLine(t, pool, 0)
}
