package ops

import (
	"context"
	"sync/atomic"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Lending counts the open borrows of a gateway over all transports, and can stop all of
// them for ever. It is also the prometheus.Collector of the outcomes of requests: see
// Events.
type Lending struct {
	eventVectors
	open    atomic.Int64
	stopped context.Context
	stop    context.CancelFunc

	Waits Waits // the requests that wait
}

// NewLending returns a Lending that is not stopped.
func NewLending() *Lending {
	l := &Lending{eventVectors: newEventVectors()}
	l.stopped, l.stop = context.WithCancel(context.Background())
	return l
}

// Begin begins a borrow. Its context is canceled with cause wire.ErrDraining when Stop
// is called, or has been. The caller must call end once.
func (l *Lending) Begin(ctx context.Context) (borrow context.Context, end func()) {
	borrow, cancel := context.WithCancelCause(ctx)
	if l.Stopped() { // at once; AfterFunc would do it in another goroutine
		cancel(wire.ErrDraining)
	}
	detach := context.AfterFunc(l.stopped, func() { cancel(wire.ErrDraining) })
	l.open.Add(1)
	return borrow, func() {
		l.open.Add(-1)
		detach()
		cancel(nil)
	}
}

// Open returns the number of borrows that have begun and not ended.
func (l *Lending) Open() int { return int(l.open.Load()) }

// Stop cancels all open borrows and those to come.
func (l *Lending) Stop() { l.stop() }

// Stopped reports whether Stop was called.
func (l *Lending) Stopped() bool { return l.stopped.Err() != nil }
