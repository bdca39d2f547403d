package kvslots

import (
	"context"
	"errors"
	"time"
)

// KeepAlive renews the lease in the background, every third of its TTL, until ctx
// or the lease ends. It retries a renewal that returns ErrUnavailable until the
// lease ends. When a renewal is refused, KeepAlive stops and Done is closed.
// KeepAlive never returns the lease.
//
// stop stops the renewals, and blocks until the goroutine has ended. It may be called
// more than once, and must be called if ctx does not end.
func (l *Lease) KeepAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keepAlive(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (l *Lease) keepAlive(ctx context.Context) {
	ttl := l.TTL()
	pause := ttl / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.Done():
			return
		case <-time.After(pause):
		}
		switch err := l.Renew(ctx, ttl); {
		case err == nil:
			pause = l.TTL() / 3
		case isLost(err), errors.Is(err, ErrClosed):
			return
		default:
			pause = min(ttl/10, time.Second)
		}
	}
}

// isLost reports whether err means that the lease has ended.
func isLost(err error) bool { return errors.Is(err, ErrNotHeld) || errors.Is(err, ErrNoPool) }
