package kvslots

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// Of several peers one unregisters an idle pool. A pool with a lease stays.
func TestPoolIdle(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "")
	var peers []*Store
	for range 3 {
		s := openPeer(t, srv.Connect(), Config{PoolIdle: time.Second})
		peers = append(peers, s)
	}
	idle, lent := newPool(t, peers[0], 1), newPool(t, peers[1], 1)
	lease, err := peers[1].Borrow(t.Context(), lent, WithFixedTTL(time.Minute), WithWait(0))
	for errors.Is(err, ErrNoPool) { // the machine has paused for a second
		lent = newPool(t, peers[1], 1)
		lease, err = peers[1].Borrow(t.Context(), lent, WithFixedTTL(time.Minute), WithWait(0))
	}
	natstest.Must(t, err)
	eventually(t, "the idle pool is unregistered", func() bool {
		_, err := peers[2].Inspect(t.Context(), idle)
		return errors.Is(err, ErrNoPool)
	})
	eventually(t, "a peer has counted it", func() bool {
		return peers[0].Metrics().IdlePools+peers[1].Metrics().IdlePools+peers[2].Metrics().IdlePools > 0
	})
	wantState(t, peers[2], lent, State{Count: 1, InUse: 1})
	mustReturn(t, peers[0], lent, lease)
	eventually(t, "the other pool is unregistered", func() bool {
		_, err := peers[2].Inspect(t.Context(), lent)
		return errors.Is(err, ErrNoPool)
	})
}

func TestPoolIdleRange(t *testing.T) {
	for _, idle := range []time.Duration{-1, time.Second - 1, 366 * 24 * time.Hour} {
		var wrong *RangeError
		if _, err := (Config{PoolIdle: idle}).withDefaults(); !errors.As(err, &wrong) || wrong.Field != "pool-idle" {
			t.Errorf("%v: %v", idle, err)
		}
	}
}
