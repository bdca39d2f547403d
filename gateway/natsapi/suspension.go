package natsapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

const (
	// beatEvery is how often suspension notes that this process runs.
	beatEvery = 250 * time.Millisecond

	// suspendedAfter is the time without a beat after which it was suspended. A busy machine can delay a
	// beat, too, which does no harm.
	suspendedAfter = time.Second

	// doubtFor is for how long after that the requests that are read may have been sent
	// meanwhile. It covers reading, and handling, all that the server has kept.
	doubtFor = 5 * time.Second
)

// suspension notices that this process has not run for a while: it was stopped, or its machine was
// suspended. It then finds requests in its socket whose clients have gone, and may have asked
// another gateway since.
type suspension struct {
	now      func() time.Time
	ran      atomic.Int64 // Unix nanoseconds of the last beat, since the monotonic clock may stand still while the machine is suspended
	doubtful atomic.Int64 // until when there may be such requests
}

func newSuspension(now func() time.Time) *suspension {
	s := &suspension{now: now}
	s.beat()
	s.doubtful.Store(0)
	return s
}

// lately reports whether the process was suspended lately. The first request that is handled after
// that may come before the next beat.
func (s *suspension) lately() bool {
	now := s.now().UnixNano()
	if now-s.ran.Load() > int64(suspendedAfter) {
		s.doubtful.Store(now + int64(doubtFor))
	}
	left := time.Duration(s.doubtful.Load() - now)
	return 0 < left && left <= doubtFor // more only if the clock was set back
}

func (s *suspension) beat() {
	s.lately()
	s.ran.Store(s.now().UnixNano())
}

// watch notes that the process runs, until ctx ends.
func (s *suspension) watch(ctx context.Context) {
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			s.beat()
		}
	}
}

// isStale reports whether the client of a request has gone, or has cancelled it, before the
// request was handled, because this process was suspended. Such a request must have no effect: its
// client may have taken a slot or a place in a line since. It costs a round trip and some
// milliseconds, so only requests for which that matters are checked, and only when they may have
// been waiting.
func (s *Service) isStale(ctx context.Context, r *request, call *ops.Call) bool {
	return call.Cancels() && s.suspension.lately() && (r.gone() || ctx.Err() != nil)
}
