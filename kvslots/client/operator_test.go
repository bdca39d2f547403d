package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const label = `ci@build7:1234 <img onerror="x"> é`

// An operator sees who holds a pool and who waits, ends a lease, takes a position out of service
// and pauses the pool: by its id, and by its hash.
func TestOperator(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(ctx, pool, 2, kvslots.WithName("screens"))))
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0), kvslots.WithLabel(label))
		kvslotstest.Must(t, err)
		if h, err := c.Holder(ctx, pool, lease.ID()); err != nil || h.Fence != lease.Fence() || h.Label != label || h.ExpiresIn <= 0 {
			t.Errorf("the holder: %+v, %v", h, err)
		}
		listed, next, err := c.ReadPools(ctx, kvslots.PoolQuery{Max: 10, Match: "SCREEN", Order: kvslots.ByInUse})
		if err != nil || len(listed) != 1 || next != "" || listed[0].Name != "screens" || listed[0].InUse != 1 || listed[0].Key != "" {
			t.Fatalf("listed: %+v, %q, %v", listed, next, err)
		}
		byHash, err := kvslots.ByHash(listed[0].Hash.String())
		if err != nil || byHash.Hash() != kvslots.ByID(pool).Hash() {
			t.Fatal(byHash, err)
		}
		for _, ref := range []kvslots.PoolRef{byHash, kvslots.ByID(pool)} {
			out := kvslots.OutOfService{Position: 1, Reason: "screen broken"}
			if state, err := c.TakeOut(ctx, ref, out); err != nil || state != (kvslots.State{Count: 2, InUse: 1}) {
				t.Errorf("%+v, %v", state, err)
			}
			d, err := c.ReadPool(ctx, ref, kvslots.DetailPage{})
			if err != nil || d.Name != "screens" || len(d.Holders) != 1 || d.Holders[0].Label != label || len(d.OutOfService) != 1 || d.OutOfService[0] != out {
				t.Errorf("%+v, %v", d, err)
			}
			if state, err := c.PutBack(ctx, ref, 1); err != nil || state.Available != 1 {
				t.Errorf("%+v, %v", state, err)
			}
			if state, err := c.TakeOut(ctx, ref, kvslots.OutOfService{Position: kvslots.WholePool, Reason: "night"}); err != nil || state.Available != 0 {
				t.Errorf("paused: %+v, %v", state, err)
			}
			listed, _, err = c.ReadPools(ctx, kvslots.PoolQuery{Max: 1, Match: byHash.Hash()})
			if err != nil || len(listed) != 1 || !listed[0].Paused || listed[0].PauseReason != "night" {
				t.Errorf("a paused pool: %+v, %v", listed, err)
			}
			if _, err := c.PutBack(ctx, ref, kvslots.WholePool); err != nil {
				t.Error(err)
			}
			if _, err := c.TakeOut(ctx, ref, kvslots.OutOfService{Position: 2}); !errors.Is(err, kvslots.ErrNoPosition) {
				t.Errorf("no such position: %v", err)
			}
			if _, err := c.Evict(ctx, ref, 1, lease.Fence()); !errors.Is(err, kvslots.ErrNotHeld) {
				t.Errorf("a position without a lease: %v", err)
			}
			if _, err := c.Evict(ctx, ref, 0, lease.Fence()+1); !errors.Is(err, kvslots.ErrOtherHolder) {
				t.Errorf("another fence: %v", err)
			}
		}
		if h, err := c.Evict(ctx, byHash, 0, lease.Fence()); err != nil || h.Label != label || h.Fence != lease.Fence() {
			t.Errorf("ended: %+v, %v", h, err)
		}
		if _, err := c.Holder(ctx, pool, lease.ID()); !errors.Is(err, kvslots.ErrEvicted) {
			t.Errorf("the lease that was ended: %v", err)
		}
		if _, err := c.Renew(ctx, pool, lease.ID(), time.Minute); !errors.Is(err, kvslots.ErrEvicted) || err.Error() != kvslots.ErrEvicted.Error() {
			t.Errorf("renewed: %v", err)
		}
		unknown := kvslots.ByID(uuid.New())
		_, readErr := c.ReadPool(ctx, unknown, kvslots.DetailPage{})
		_, evictErr := c.Evict(ctx, unknown, 0, 1)
		_, outErr := c.TakeOut(ctx, unknown, kvslots.OutOfService{})
		for _, err := range []error{readErr, evictErr, outErr} {
			if !errors.Is(err, kvslots.ErrNoPool) {
				t.Errorf("an unknown pool: %v", err)
			}
		}
	})
}

// A borrower that waits learns its place, and so does one that is refused.
func TestPlace(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(ctx, pool, 1)))
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0), kvslots.WithRequestKey("first"))
		kvslotstest.Must(t, err)
		if _, h, err := c.PlaceOf(ctx, pool, "first"); err != nil || h == nil || h.Fence != lease.Fence() {
			t.Errorf("of a lease: %+v, %v", h, err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(time.Minute), kvslots.WithRequestKey("second"), kvslots.WithLabel("waits"))
			got <- err
		}()
		kvslotstest.Eventually(t, "the second waits", func() bool {
			w, _, err := c.PlaceOf(ctx, pool, "second")
			return err == nil && w.Place == 1 && w.Label == "waits"
		})
		_, err = c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		if refused, ok := errors.AsType[*kvslots.TakenError](err); !ok || refused.Place != 2 || !errors.Is(err, kvslots.ErrNoSlot) {
			t.Errorf("refused: %v", err)
		}
		d, err := c.ReadPool(ctx, kvslots.ByID(pool), kvslots.DetailPage{MaxWaiters: 1})
		if err != nil || len(d.Waiters) != 1 || d.Waiters[0].Label != "waits" || len(d.Holders) != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if _, _, err := c.PlaceOf(ctx, pool, "third"); !errors.Is(err, kvslots.ErrNotInLine) {
			t.Errorf("of nobody: %v", err)
		}
		if _, err := c.Return(ctx, pool, lease.ID()); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// The same for a semaphore, by its name: the label is that of the session, or of the call.
func TestOperatorOfNames(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, r, ref := t.Context(), kvslots.Semaphore("build/1", 2), kvslots.ByName("build/1")
		session, _, err := c.CreateSession(ctx, kvslots.WithLabel("of the session"))
		kvslotstest.Must(t, err)
		if _, err := c.ReadPool(ctx, ref, kvslots.DetailPage{}); !errors.Is(err, kvslots.ErrNoPool) {
			t.Errorf("before its use: %v", err)
		}
		kvslotstest.Must(t, kvslotstest.Err(c.Acquire(ctx, session, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))))
		other, _, err := c.CreateSession(ctx)
		kvslotstest.Must(t, err)
		if _, acquired, err := c.Enqueue(ctx, other, r, kvslots.WithTTL(time.Minute), kvslots.WithLabel("of the call")); err != nil || !acquired {
			t.Fatal(acquired, err)
		}
		d, err := c.ReadPool(ctx, ref, kvslots.DetailPage{MaxHolders: 1})
		if err != nil || d.Key != r.Key || d.Type != r.Kind.String() || len(d.Holders) != 1 || d.NextFrom == 0 || d.Holders[0].Label != "of the session" || d.Holders[0].Owner == 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		d, err = c.ReadPool(ctx, ref, kvslots.DetailPage{From: 1, MaxHolders: 1})
		if err != nil || len(d.Holders) != 1 || d.NextFrom != 0 || d.Holders[0].Label != "of the call" {
			t.Fatalf("%+v, %v", d, err)
		}
		third, _, err := c.CreateSession(ctx)
		kvslotstest.Must(t, err)
		_, err = c.Acquire(ctx, third, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
		if refused, ok := errors.AsType[*kvslots.TakenError](err); !ok || refused.Place != 1 {
			t.Errorf("refused: %v", err)
		}
		if h, err := c.Evict(ctx, ref, 1, d.Holders[0].Fence); err != nil || h.Label != "of the call" {
			t.Errorf("%+v, %v", h, err)
		}
		if state, err := c.TakeOut(ctx, ref, kvslots.OutOfService{Position: 1}); err != nil || state.Available != 0 {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

// A lock that is not in use can be paused, but not a pool in its place that has its name in public.
func TestPauseOfUnused(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, pause := t.Context(), kvslots.OutOfService{Position: kvslots.WholePool, Reason: "night"}
		if state, err := c.TakeOut(ctx, kvslots.ByName("unused/1"), pause); err != nil || state != (kvslots.State{Count: 1}) {
			t.Errorf("%+v, %v", state, err)
		}
		if d, err := c.ReadPool(ctx, kvslots.ByName("unused/1"), kvslots.DetailPage{}); err != nil || !d.Paused || d.PauseReason != "night" {
			t.Errorf("%+v, %v", d, err)
		}
		if ref, err := c.FindPool(ctx, "unused/1"); err != nil || ref.Key() != "unused/1" {
			t.Errorf("%v, %v", ref, err)
		}
		pool := uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(c.Register(ctx, pool, 1, kvslots.WithName("screens"))))
		_, err := c.TakeOut(ctx, kvslots.ByName("screens"), pause)
		if outside, ok := errors.AsType[*kvslots.RangeError](err); !ok || outside.Field != "ref" {
			t.Error(err)
		}
		if d, err := c.ReadPool(ctx, kvslots.ByID(pool), kvslots.DetailPage{}); err != nil || d.Paused {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A label that people cannot read is refused before a request is sent.
func TestOperatorRanges(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		ctx, pool := t.Context(), uuid.New()
		_, _, maxErr := c.ReadPools(ctx, kvslots.PoolQuery{Max: kvslots.MaxPoolsRead + 1})
		_, _, afterErr := c.ReadPools(ctx, kvslots.PoolQuery{Max: 1, After: "x"})
		_, positionErr := c.TakeOut(ctx, kvslots.ByID(pool), kvslots.OutOfService{Position: -2})
		_, reasonErr := c.TakeOut(ctx, kvslots.ByID(pool), kvslots.OutOfService{Reason: "a\u202eb"})
		_, nameErr := c.Register(ctx, pool, 1, kvslots.WithName(strings.Repeat("x", 65)))
		_, labelErr := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Second), kvslots.WithWait(0), kvslots.WithLabel("a\nb"))
		for field, err := range map[string]error{
			"max": maxErr, "after": afterErr, "position": positionErr, "reason": reasonErr, "name": nameErr, "label": labelErr,
		} {
			if outside, ok := errors.AsType[*kvslots.RangeError](err); !ok || outside.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}
