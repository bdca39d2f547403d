package natsapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

const (
	// beatEvery is how often away notes that this process runs.
	beatEvery = 250 * time.Millisecond

	// awayAfter is the time without a beat after which it was away. A busy machine can delay a
	// beat, too, which does no harm.
	awayAfter = time.Second

	// doubtFor is for how long after that the requests that are read may have been sent
	// meanwhile. It covers reading, and handling, all that the server has kept.
	doubtFor = 5 * time.Second
)

// away notices that this process has not run for a while: it was stopped, or its machine was
// suspended. It then finds requests in its socket whose clients have gone, and may have asked
// another gateway since.
type away struct {
	now      func() time.Time
	ran      atomic.Int64 // Unix nanoseconds of the last beat, since the monotonic clock may stand still while the machine is suspended
	doubtful atomic.Int64 // until when there may be such requests
}

func newAway(now func() time.Time) *away {
	a := &away{now: now}
	a.beat()
	a.doubtful.Store(0)
	return a
}

// lately reports whether the process was away lately. The first request that is handled after
// that may come before the next beat.
func (a *away) lately() bool {
	now := a.now().UnixNano()
	if now-a.ran.Load() > int64(awayAfter) {
		a.doubtful.Store(now + int64(doubtFor))
	}
	left := time.Duration(a.doubtful.Load() - now)
	return 0 < left && left <= doubtFor // more only if the clock was set back
}

func (a *away) beat() {
	a.lately()
	a.ran.Store(a.now().UnixNano())
}

// watch notes that the process runs, until ctx ends.
func (a *away) watch(ctx context.Context) {
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			a.beat()
		}
	}
}

// isStale reports whether the client of a request has gone, or has cancelled it, before the
// request was handled, because this process was away. Such a request must have no effect: its
// client may have taken a slot or a place in a line since. It costs a round trip and some
// milliseconds, so only requests for which that matters are checked, and only when they may have
// been waiting.
func (s *Service) isStale(ctx context.Context, r *request, call *ops.Call) bool {
	return call.Cancels() && s.away.lately() && (r.gone() || ctx.Err() != nil)
}
