package cosmo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// When the stream's leader dies, running requests succeed or return an error, no slot
// is acquired twice, and workers go on with the next leader.
func TestLimiterSurvivesLeaderDeath(t *testing.T) {
	cluster := kvslotstest.StartCluster(t)
	l, err := New(t.Context(), cluster.Connect(), Config{Replicas: 3})
	natstest.Must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var holders, jobs atomic.Int64
	work := func() {
		for ctx.Err() == nil {
			// Longer than any job, and short enough to wait for after a claim without an answer.
			slot, err := l.Acquire(ctx, "mail", "job", 1, 5*time.Second)
			switch {
			case err == nil:
				if n := holders.Add(1); n > 1 {
					t.Errorf("%d jobs run at once", n)
				}
				clock.Sleep(ctx, time.Millisecond)
				holders.Add(-1)
				_ = l.Release(context.WithoutCancel(ctx), slot)
				jobs.Add(1)
			case errors.Is(err, kvslots.ErrNoSlot), errors.Is(err, kvslots.ErrUnavailable):
				clock.Sleep(ctx, 2*time.Millisecond)
			case ctx.Err() == nil:
				t.Error(err)
			}
		}
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(work)
	}
	for range 2 {
		for enough := jobs.Load() + 50; jobs.Load() < enough && ctx.Err() == nil; {
			clock.Sleep(ctx, 10*time.Millisecond)
		}
		if ctx.Err() == nil && len(cluster.Servers) == 3 {
			dead := cluster.StreamLeader("KV_" + DefaultBucket)
			dead.Stop()
			cluster.Servers = without(cluster.Servers, dead)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("stuck after %d jobs", jobs.Load())
	}
	stop()
	workers.Wait()
}

func without(servers []*kvslotstest.Server, one *kvslotstest.Server) []*kvslotstest.Server {
	var left []*kvslotstest.Server
	for _, s := range servers {
		if s != one {
			left = append(left, s)
		}
	}
	return left
}
