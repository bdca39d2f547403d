package ops

import (
	"cmp"
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Lending counts the open borrows of a gateway over all transports, and can stop all of
// them for ever. It is also the prometheus.Collector of the outcomes of requests: see
// Events.
type Lending struct {
	eventVectors
	stopping context.Context // ended by Stop, with the cause wire.ErrDraining
	stop     context.CancelCauseFunc

	borrows atomic.Int64 // that are open

	Waits       Limiter[string] // the requests that wait, by Origin
	Connections Connections     // of clients, over HTTP and TCP
	Reads       Reads           // of what takes long, such as lists and statistics

	// MayGuess reports whether a client may send a token at --tcp-addr. The rate limit over HTTP
	// decides it; nil: every client may. It is set before the first request.
	MayGuess func(client netip.Addr) bool

	// Tokens have the names of operators, for the log. They are set before the first request.
	Tokens *Tokens

	// MaxWait is the longest wait; longer ones are clamped to it. 0 means
	// kvslots.DefaultMaxWait. It is set before the first request.
	MaxWait time.Duration
}

func NewLending() *Lending {
	l := &Lending{eventVectors: newEventVectors()}
	l.stopping, l.stop = context.WithCancelCause(context.Background())
	return l
}

// Begin begins a borrow. Its context is that of UntilStop. The caller must call end once.
func (l *Lending) Begin(ctx context.Context) (borrow context.Context, end func()) {
	l.borrows.Add(1)
	borrow, cancel := l.UntilStop(ctx)
	return borrow, func() {
		l.borrows.Add(-1)
		cancel()
	}
}

// BeginShort is Begin for a borrow that does not wait: Stop does not end it.
func (l *Lending) BeginShort(ctx context.Context) (borrow context.Context, end func()) {
	if l.Stopped() {
		return l.Begin(ctx)
	}
	l.borrows.Add(1)
	return ctx, func() { l.borrows.Add(-1) }
}

// UntilStop returns a context that is canceled with cause wire.ErrDraining when Stop is called,
// or has been. The caller must call end once.
func (l *Lending) UntilStop(ctx context.Context) (until context.Context, end func()) {
	until, cancel := context.WithCancelCause(ctx)
	if l.Stopped() {
		cancel(wire.ErrDraining)
	}
	done := context.AfterFunc(l.stopping, func() { cancel(wire.ErrDraining) })
	return until, func() {
		done()
		cancel(nil)
	}
}

// Clamp returns a wait, or MaxWait if that is shorter.
func (l *Lending) Clamp(wait time.Duration) time.Duration {
	return min(wait, cmp.Or(l.MaxWait, kvslots.DefaultMaxWait))
}

func (l *Lending) Open() int { return int(l.borrows.Load()) }

// Stop cancels all open borrows and those to come, and the contexts of UntilStop.
func (l *Lending) Stop() { l.stop(wire.ErrDraining) }

func (l *Lending) Stopped() bool { return l.stopping.Err() != nil }
