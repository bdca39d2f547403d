package ops

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// slowStats is a store that takes a second for each page of statistics.
type slowStats struct {
	Sessions
	open, pages, together atomic.Int32
}

func (s *slowStats) StatsPage(ctx context.Context, _ kvslots.PoolPage) (kvslots.Stats, error) {
	if s.open.Add(1) > 1 {
		s.together.Add(1)
	}
	defer s.open.Add(-1)
	s.pages.Add(1)
	<-time.After(time.Second)
	return kvslots.Stats{}, ctx.Err()
}

// Many requests for statistics leave the store half of the time for other calls, and none
// waits longer than half a minute.
func TestStatsLeaveTimeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStats{}
		service := &Service{Sessions: store, Turns: NewTurns()}
		began := time.Now()
		var refused atomic.Int32
		for range 100 {
			go func() {
				err := service.Do(t.Context(), t.Context(), &Call{Operation: Stats}, func() {})
				if errors.Is(err, context.DeadlineExceeded) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}()
		}
		<-time.After(2 * turnTimeout)
		synctest.Wait()
		if pages := store.pages.Load(); pages < 14 || pages > 16 || store.together.Load() > 0 {
			t.Errorf("%d pages in %v, %d together with others", pages, time.Since(began), store.together.Load())
		}
		if n := refused.Load() + store.pages.Load(); n != 100 {
			t.Errorf("%d requests are answered", n)
		}
		if len(service.Turns.sessions) != 0 {
			t.Error("a turn is still taken")
		}
	})
}
