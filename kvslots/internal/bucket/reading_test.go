package bucket

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// openBucket opens a bucket that is closed at the end of the test.
func openBucket(t *testing.T, nc *nats.Conn, cfg Config) *Bucket {
	t.Helper()
	cfg.Logger = logtest.Logger()
	b, err := Open(t.Context(), nc, cfg)
	natstest.Must(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

// registers registers a pool through a bucket.
func registers(t *testing.T, b *Bucket, pool string) {
	t.Helper()
	natstest.Eventually(t, "pool "+pool+" is registered", func() bool {
		_, err := b.Do(t.Context(), peer.Register{Pool: entry.HashOf("pool", pool), Count: 3})
		return err == nil
	})
}

// count returns the count of a pool as a bucket shows it, or 0.
func count(t *testing.T, b *Bucket, pool string) int {
	t.Helper()
	a, err := b.Do(t.Context(), peer.ReadPool{Pool: entry.HashOf("pool", pool)})
	switch {
	case err == nil:
		return a.Detail.State.Count
	case !errors.Is(err, peer.ErrNoPool) && !errors.Is(err, peer.ErrUnavailable):
		t.Fatal(err)
	}
	return 0
}

// live waits until a bucket is ready.
func live(t *testing.T, b *Bucket) {
	t.Helper()
	natstest.Eventually(t, "the bucket is ready", func() bool { return b.Ready() == nil })
}

// readings returns how many readings the peer has ordered.
func readings(b *Bucket) uint64 { return b.Metrics().Readings }

// A reading is over, and its consumer deleted, as soon as it has joined the feed. The next one
// begins when the feed is interrupted.
func TestReadingEnds(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	b := openBucket(t, nc, Config{Replicas: 1})
	js := natstest.JetStream(t, nc)
	consumers := func() int {
		stream, err := js.Stream(t.Context(), StreamName)
		natstest.Must(t, err)
		return stream.CachedInfo().State.Consumers
	}
	for n := uint64(1); n < 4; n++ {
		live(t, b)
		natstest.Eventually(t, "the consumer is deleted", func() bool { return consumers() == 0 })
		if got := readings(b); got != n {
			t.Errorf("%d readings, not %d", got, n)
		}
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) { b.interrupt(now) })
	}
}

// unreadable is a stream on which requests for its info are not answered.
type unreadable struct {
	jetstream.Stream
	broken   atomic.Bool
	attempts atomic.Int64 // since then
}

func (s *unreadable) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if !s.broken.Load() {
		return s.Stream.Info(ctx, opts...)
	}
	s.attempts.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// notStarted returns a bucket that has yet to be started, on a new stream, or on what wrap
// makes of it.
func notStarted(t *testing.T, nc *nats.Conn, wrap func(jetstream.Stream) jetstream.Stream) *Bucket {
	t.Helper()
	js := natstest.JetStream(t, nc)
	stream, err := openStream(t.Context(), js, 1)
	natstest.Must(t, err)
	if wrap != nil {
		stream = wrap(stream)
	}
	return newBucket(nc, js, stream, Config{Logger: logtest.Logger()})
}

// A reading that cannot be created is tried again, Ready says why, and the peer is live when
// one can be created.
func TestReadingTriedAgain(t *testing.T) {
	t.Parallel()
	var s *unreadable
	b := notStarted(t, natstest.Start(t, "").Connect(), func(stream jetstream.Stream) jetstream.Stream {
		s = &unreadable{Stream: stream}
		return s
	})
	natstest.Must(t, b.start(t.Context()))
	t.Cleanup(func() { b.Close(context.Background()) })
	live(t, b)
	s.broken.Store(true)
	b.WithPeer(func(_ *peer.Peer, now peer.Instant) { b.interrupt(now) })
	natstest.Eventually(t, "two attempts fail", func() bool { return s.attempts.Load() > 2 })
	if err := b.Ready(); !errors.Is(err, errNoServer) {
		t.Errorf("got %v", err)
	}
	s.broken.Store(false)
	live(t, b)
}

// A busy server that does not answer one attempt in time does not hide why the others were refused.
func TestReasonOutlastsAnUnansweredAttempt(t *testing.T) {
	t.Parallel()
	b := notStarted(t, natstest.Start(t, "").Connect(), nil)
	o := &order{ctx: t.Context()}
	fails := func(why, want error) {
		t.Helper()
		b.readingFailed(o, why)
		if got := b.obstacle(); !errors.Is(got, want) {
			t.Errorf("after %v the reason is %v, want %v", why, got, want)
		}
	}
	fails(context.DeadlineExceeded, errNoServer)
	for range 3 {
		fails(ErrWrongBucket, ErrWrongBucket)
		fails(context.DeadlineExceeded, ErrWrongBucket)
		b.origin = b.origin.Add(-readyTimeout)
	}
	fails(context.DeadlineExceeded, errNoServer)
}

// A gateway with 100,000 pools did not load them with 4 % of a processor: acknowledgements
// and answers came behind the entries, so that it replaced the connection, and began anew
// each time.
func TestLoadWithLateAnswers(t *testing.T) {
	t.Parallel()
	b := notStarted(t, natstest.Start(t, "").Connect(), nil)
	b.origin = b.origin.Add(-time.Hour)
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		b.unacked = 1
		if !p.Loading() || b.mayLackSubscription(now) {
			t.Error("the connection counts as deaf")
		}
	})
}
