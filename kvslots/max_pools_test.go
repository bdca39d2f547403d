package kvslots

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// One peer never exceeds the cap, however many calls register at once. It may refuse a
// pool while it counts another one twice, so refused pools can be registered afterwards.
func TestMaxPoolsAtOnce(t *testing.T) {
	t.Parallel()
	const most, callers = 20, 200
	s := openPeer(t, natstest.Start(t, "").Connect(), Config{MaxPools: most})
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
