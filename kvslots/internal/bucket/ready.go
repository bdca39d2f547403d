package bucket

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// readyTimeout is how long the write that Ready waits for may take, and how long its flush
// may take.
const readyTimeout = time.Second

var (
	errStale = errors.New("the view is older than a second, since no write was acknowledged and delivered: " +
		"JetStream or its disk hangs, or NATS does not permit this account to use the bucket")
	errNoServer = errors.New("no JetStream server answers for the bucket: enable JetStream for this account, permit its use, " +
		"or restore its quorum")
	errDisconnected = errors.New("NATS is not connected")
	errSlowFlush    = errors.New("no flush was completed within a second: the disk hangs")
)

// Ready returns nil when a write that began within the last second is acknowledged and
// in the peer's view, and the bucket is durable. Otherwise it returns why that is not so. It
// also returns an error while a stream that others may edit has wrong settings.
func (b *Bucket) Ready() error {
	err := b.confirm()
	switch {
	case errors.Is(err, peer.ErrClosed), errors.Is(err, errDisconnected):
		return err
	case b.durable == nil:
		return cmp.Or(b.checkSettings(readyTimeout/2), err)
	case err != nil:
		return err
	}
	return b.flushed(b.open)
}

// confirm waits for a write of the peer's own, as Ready does.
func (b *Bucket) confirm() error {
	if err := b.status(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(b.open, readyTimeout, errStale)
	defer cancel()
	_, err := b.Do(ctx, peer.Confirm{})
	return cmp.Or(b.status(), err)
}

func (b *Bucket) flushed(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errSlowFlush)
	defer cancel()
	done := make(chan error, 1)
	b.durable(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
