package events

import (
	"sync"
	"sync/atomic"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// limit counts the open streams, and refuses those beyond the limits.
type limit struct {
	total, perIP          int
	refused, refusedPerIP atomic.Int64

	mu   sync.Mutex
	all  int
	open map[string]int // by the client's origin
}

func (l *limit) enter(origin string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.all >= l.total:
		l.refused.Add(1)
		return wire.ErrMaxStreams
	case l.open[origin] >= l.perIP:
		l.refusedPerIP.Add(1)
		return wire.ErrMaxStreamsPerIP
	}
	l.all++
	l.open[origin]++
	return nil
}

func (l *limit) leave(origin string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[origin]--; l.open[origin] == 0 {
		delete(l.open, origin)
	}
}

func (l *limit) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
