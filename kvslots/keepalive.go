package kvslots

import (
	"context"
	"errors"
	"time"
)

// KeepAlive renews the lease in the background, at a third of its TTL, for as
// long as ctx lasts and the lease does. A renewal that fails because the store
// is unavailable is tried again while there is time; when the lease is lost,
// renewing stops for good and Done is closed. The lease is not returned at the
// end.
//
// stop ends it and waits until it has ended; it may be called more than once,
// and must be called if ctx does not end.
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

// isLost reports whether an error says that a lease has ended.
func isLost(err error) bool { return errors.Is(err, ErrNotHeld) || errors.Is(err, ErrNoPool) }
