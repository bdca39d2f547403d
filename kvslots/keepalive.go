package kvslots

import "context"

// KeepAlive renews the lease in the background, every sixth of its TTL, until ctx
// or the lease ends. It retries a renewal that returns ErrUnavailable until the
// lease ends. When a renewal is refused, KeepAlive stops and Done is closed.
// KeepAlive never returns the lease.
//
// stop stops the renewals, and blocks until the goroutine has ended. It may be called
// more than once, and must be called if ctx does not end.
func (l *Lease) KeepAlive(ctx context.Context) (stop func()) {
	l.watch()
	ttl := l.TTL()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(ctx, func(ctx context.Context) error { return l.Renew(ctx, ttl) })
	}()
	return func() {
		cancel()
		<-ended
	}
}
