package ops

import (
	"context"
	"sync/atomic"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Lending is the lending of slots over every transport of a gateway: which borrows
// are still unanswered, and whether there may be new ones. It stops once and for all.
type Lending struct {
	open    atomic.Int64
	stopped context.Context
	stop    context.CancelFunc

	Waits Waits // the requests that wait
}

// NewLending lends until Stop.
func NewLending() *Lending {
	l := &Lending{}
	l.stopped, l.stop = context.WithCancel(context.Background())
	return l
}

// Begin opens a borrow: it gives the context to borrow under, which ends with
// cause wire.ErrDraining when lending stops or has stopped. The borrow is over when
// end is called, once.
func (l *Lending) Begin(ctx context.Context) (borrow context.Context, end func()) {
	borrow, cancel := context.WithCancelCause(ctx)
	if l.Stopped() { // at once; AfterFunc would take a goroutine's time
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

// Open is the number of borrows that have begun and not ended.
func (l *Lending) Open() int { return int(l.open.Load()) }

// Stop ends all open borrows and those to come.
func (l *Lending) Stop() { l.stop() }

// Stopped reports whether Stop was called.
func (l *Lending) Stopped() bool { return l.stopped.Err() != nil }
