package cosmo

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

var limiterTime = flag.Duration("limiter", 2*time.Second, "how long workers share a limit")

// sharedTime is longer in "make soak".
func sharedTime() time.Duration {
	if os.Getenv("KVSLOTS_SOAK") != "" {
		return 30 * time.Second
	}
	return *limiterTime
}

func TestLimiterSharedSoak(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	shareLimit(t, func() *nats.Conn { return srv.Connect() }, 1)
}

func TestLimiterSharedOnAClusterSoak(t *testing.T) {
	cluster := kvslotstest.StartCluster(t)
	shareLimit(t, func() *nats.Conn { return cluster.Connect() }, 3)
}

// shareLimit makes sixteen Limiters share a limit with sixteen workers that only do a
// compare-and-swap on revision 0 with a TTL.
func shareLimit(t *testing.T, connect func() *nats.Conn, replicas int) {
	const each, limit = 16, 3
	kvslotstest.Must(t, kvslotstest.Err(New(t.Context(), connect(), Config{Replicas: replicas})))
	ctx, cancel := context.WithTimeout(t.Context(), sharedTime()+time.Minute)
	defer cancel()
	shared := &shared{t: t, limit: limit, jobs: make([]atomic.Int64, 2*each)}
	enough := time.Now().Add(sharedTime())
	var workers sync.WaitGroup
	for n := range 2 * each {
		var w limitWorker = newTestLimiter(t, connect())
		if n >= each {
			w = plainWorker{connect()}
		}
		workers.Go(func() { shared.work(ctx, n, w) })
	}
	for time.Now().Before(enough) || !shared.shows() && ctx.Err() == nil {
		clock.Sleep(ctx, 10*time.Millisecond)
	}
	cancel()
	workers.Wait()
	var ours, theirs int64
	for n := range shared.jobs {
		done := shared.jobs[n].Load()
		if done == 0 {
			t.Errorf("worker %d did nothing", n)
		}
		if n < each {
			ours += done
		} else {
			theirs += done
		}
	}
	t.Logf("%d jobs of Limiters, %d of plain workers, at most %d at once", ours, theirs, shared.most.Load())
	if shared.most.Load() != limit {
		t.Errorf("at most %d at once: the test shows nothing", shared.most.Load())
	}
}

// limitWorker is a Limiter, or a worker like those in other languages.
type limitWorker interface {
	Acquire(ctx context.Context, key, jid string, limit int, duration time.Duration) (Slot, error)
	Release(ctx context.Context, slot Slot) error
}

// shared counts the holders of slots.
type shared struct {
	t       *testing.T
	limit   int64
	holders atomic.Int64
	most    atomic.Int64
	jobs    []atomic.Int64 // done, by worker
}

func (s *shared) work(ctx context.Context, n int, w limitWorker) {
	background := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		slot, err := w.Acquire(background, "shared/limit", fmt.Sprint("job", n), int(s.limit), time.Minute)
		if errors.Is(err, kvslots.ErrNoSlot) {
			clock.Sleep(ctx, time.Duration(rand.IntN(10_000))*time.Microsecond)
			continue
		}
		if err != nil {
			s.t.Errorf("worker %d: %v", n, err)
			return
		}
		s.hold()
		clock.Sleep(ctx, time.Duration(rand.IntN(2_000))*time.Microsecond)
		s.holders.Add(-1)
		if err := w.Release(background, slot); err != nil {
			s.t.Errorf("worker %d: %v", n, err)
			return
		}
		s.jobs[n].Add(1)
		clock.Sleep(ctx, time.Duration(rand.IntN(2_000))*time.Microsecond)
	}
}

// shows reports whether each worker ran a job, and the limit was reached.
func (s *shared) shows() bool {
	for n := range s.jobs {
		if s.jobs[n].Load() == 0 {
			return false
		}
	}
	return s.most.Load() >= s.limit
}

func (s *shared) hold() {
	now := s.holders.Add(1)
	if now > s.limit {
		s.t.Errorf("%d workers hold a slot", now)
	}
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
}

// plainWorker publishes with the two headers, and purges the subject.
type plainWorker struct{ nc *nats.Conn }

func (w plainWorker) Acquire(ctx context.Context, key, jid string, limit int, duration time.Duration) (Slot, error) {
	for n := 0; n < limit; {
		slot := Slot{Key: fmt.Sprintf("%s/%d", key, n), Number: n}
		m := nats.NewMsg("$KV.cosmo_jobs_limits." + slot.Key)
		m.Data = []byte(jid)
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
		m.Header.Set("Nats-TTL", fmt.Sprintf("%ds", int(duration.Seconds())))
		reply, err := w.nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return Slot{}, err
		}
		var answer struct {
			Seq   uint64 `json:"seq"`
			Error struct {
				Code int `json:"err_code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil {
			return Slot{}, err
		}
		switch answer.Error.Code {
		case 0:
			slot.Revision = answer.Seq
			return slot, nil
		case 10071:
			n++
		case 10164: // try again
		default:
			return Slot{}, errors.New(string(reply.Data))
		}
	}
	return Slot{}, kvslots.ErrNoSlot
}

func (w plainWorker) Release(ctx context.Context, slot Slot) error {
	body, err := json.Marshal(map[string]string{"filter": "$KV.cosmo_jobs_limits." + slot.Key})
	if err != nil {
		return err
	}
	reply, err := w.nc.RequestWithContext(ctx, "$JS.API.STREAM.PURGE.KV_cosmo_jobs_limits", body)
	if err != nil {
		return err
	}
	var answer struct {
		Purged int `json:"purged"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Purged != 1 {
		return fmt.Errorf("%s: %w", reply.Data, err)
	}
	return nil
}
