package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// busyAPI refuses the first borrows that would wait, as a gateway does with some of very
// many that arrive at once.
type busyAPI struct {
	kvslots.Service
	refusals atomic.Int64 // left
}

var errBusy = errors.New("too many requests at once")

func (b *busyAPI) Borrow(ctx context.Context, pool uuid.UUID, opts ...kvslots.Option) (*kvslots.Lease, error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return nil, err
	}
	if _, wait := o.Times(); wait > 0 && b.refusals.Add(-1) >= 0 {
		return nil, errBusy
	}
	return b.Service.Borrow(ctx, pool, opts...)
}

// Waiters that are refused ask again, until all of them stand in the line.
func TestRefusedWaitersAskAgain(t *testing.T) {
	t.Parallel()
	const waiters = 5
	busy := &busyAPI{Service: kvslotstest.New(t)}
	busy.refusals.Store(3)
	pools, err := clientTransport{name: "busy", api: busy}.Pools(t.Context(), 1, 1, waiters)
	kvslotstest.Must(t, err)
	if _, err := measureWaiters(t.Context(), pools, waiters, time.Millisecond, true); err != nil {
		t.Error(err)
	}
}

// A line that does not fill says why.
func TestWaitersSayWhyTheyAreRefused(t *testing.T) {
	busy := &busyAPI{}
	busy.refusals.Store(1 << 30)
	pools := &clientPools{api: busy, ids: newIDs(1), clients: 3}
	leave, err := pools.Queue(t.Context(), 0)
	kvslotstest.Must(t, err)
	for busy.refusals.Load() > 1<<30-4 { // one has asked again
		clock.Sleep(t.Context(), time.Millisecond)
	}
	if err := leave(); !errors.Is(err, errBusy) {
		t.Errorf("got %v", err)
	}
}
