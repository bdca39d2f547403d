package kvslots

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Every peer refuses new pools beyond MaxPools, and still accepts a new count for a
// registered pool. A deletion makes room.
func TestMaxPools(t *testing.T) {
	t.Parallel()
	const most = 10
	srv := natstest.Start(t, "")
	var peers []*Store
	for range 2 {
		s, err := Open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger(), MaxPools: most})
		natstest.Must(t, err)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		peers = append(peers, s)
	}
	a, b := peers[0], peers[1]
	natstest.Must(t, natstest.Err(a.LockOwned(t.Context(), "no-pool", "me", WithTTL(DefaultMaxWait), WithWait(0))))
	pools := make([]uuid.UUID, most)
	for i := range pools {
		pools[i] = newPool(t, a, 1)
	}
	eventually(t, "the other peer refuses another pool", func() bool {
		extra := uuid.New()
		_, err := b.Register(t.Context(), extra, 1)
		if err == nil {
			err = b.Delete(t.Context(), extra)
		}
		return errors.Is(err, ErrMaxPools)
	})
	_, err := a.Register(t.Context(), uuid.New(), 1)
	wantErr(t, err, ErrMaxPools)
	for i, pool := range pools {
		if _, err := peers[i%2].Register(t.Context(), pool, 2); err != nil {
			t.Error(err)
		}
	}
	natstest.Must(t, a.Delete(t.Context(), pools[0]))
	newPool(t, a, 1)
	_, err = a.Register(t.Context(), uuid.New(), 1)
	wantErr(t, err, ErrMaxPools)
}

// One peer never exceeds the cap, however many calls register at once. It may refuse a
// pool while it counts another one twice, so refused pools can be registered afterwards.
func TestMaxPoolsAtOnce(t *testing.T) {
	t.Parallel()
	const most, callers = 20, 200
	s, err := Open(t.Context(), natstest.Start(t, "").Connect(), Config{Logger: logtest.Logger(), MaxPools: most})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	var registered atomic.Int32
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			switch _, err := s.Register(t.Context(), uuid.New(), 1); {
			case err == nil:
				registered.Add(1)
			case !errors.Is(err, ErrMaxPools):
				t.Error(err)
			}
		})
	}
	running.Wait()
	n := registered.Load()
	for {
		if _, err := s.Register(t.Context(), uuid.New(), 1); err != nil {
			wantErr(t, err, ErrMaxPools)
			break
		}
		n++
	}
	if n != most {
		t.Errorf("%d pools were registered", n)
	}
}
