package bucket

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// unwatchable is a stream on which the creation of a consumer is not answered, as
// without a leader that creates it.
type unwatchable struct {
	jetstream.Stream
	broken   atomic.Bool
	attempts atomic.Int64 // since then
}

func (s *unwatchable) CreatePushConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.PushConsumer, error) {
	if !s.broken.Load() {
		return s.Stream.CreatePushConsumer(ctx, cfg)
	}
	s.attempts.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

func openUnwatchable(t *testing.T, cluster *kvslotstest.Cluster) (*Bucket, *unwatchable) {
	t.Helper()
	nc := cluster.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := openStream(t.Context(), js, 3)
	if err != nil {
		t.Fatal(err)
	}
	s := &unwatchable{Stream: stream}
	b := newBucket(nc, js, s, Config{Logger: logtest.Logger()})
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	if err := b.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, s
}

// unanswered is a stream on which no question about a consumer is answered.
type unanswered struct {
	jetstream.Stream
	questions atomic.Int64
	meanwhile func() // called after each question
}

func (s *unanswered) PushConsumer(ctx context.Context, _ string) (jetstream.PushConsumer, error) {
	s.questions.Add(1)
	s.meanwhile()
	<-ctx.Done()
	return nil, ctx.Err()
}

// newUnanswered returns a bucket that is not started, and a watch of it that has heard from
// the server.
func newUnanswered(t *testing.T) (*watch, *unanswered) {
	t.Helper()
	nc := kvslotstest.Start(t, t.TempDir()).Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := openStream(t.Context(), js, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &unanswered{Stream: stream, meanwhile: func() {}}
	b := newBucket(nc, js, s, Config{Logger: logtest.Logger()})
	b.origin = b.origin.Add(-time.Hour)
	b.Look(func(*peer.Peer, peer.Instant) {}) // orders the first watch, before which nothing is expected
	w := &watch{b: b, order: order{ctx: t.Context()}}
	w.lastMessage.Store(int64(b.now().Add(time.Hour))) // however slow the machine is
	return w, s
}

// expectMore makes the delivery of a revision overdue, and the acknowledgement of a write.
func (w *watch) expectMore() {
	w.b.Look(func(*peer.Peer, peer.Instant) {
		w.b.progress.expect(1<<60, 0)
		w.b.unacked = 1
	})
}

// A gateway with 100,000 pools did not load them with 4 % of a processor: acknowledgements
// and answers came behind the entries, so that it replaced the watch or the connection, and
// began anew each time.
func TestLoadWithLateAnswers(t *testing.T) {
	t.Parallel()
	w, s := newUnanswered(t)
	w.expectMore()
	if why := w.failure(); why != "" || s.questions.Load() > 0 {
		t.Errorf("the watch is lost after %d questions: %q", s.questions.Load(), why)
	}
	w.b.Look(func(_ *peer.Peer, now peer.Instant) {
		if w.b.mayLackSubscription(now) {
			t.Error("the connection counts as deaf")
		}
	})
	w.lastMessage.Store(0)
	if why := w.failure(); why != "no heartbeat" {
		t.Errorf("a silent watch is lost because of %q", why)
	}
}

// When the view is loaded, a server that does not answer has lost the watch, unless it
// delivers entries meanwhile.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	w, s := newUnanswered(t)
	s.meanwhile = func() { w.lastMessage.Add(1) }
	if err := w.b.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.b.Close(context.Background()) })
	if err := w.b.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expectMore()
	if why := w.failure(); why != "" || s.questions.Load() == 0 {
		t.Errorf("a watch that delivers is lost after %d questions: %q", s.questions.Load(), why)
	}
	silent := &watch{b: w.b, order: w.order}
	silent.lastMessage.Store(w.lastMessage.Load())
	if why := silent.failure(); why != "the server of the consumer does not answer" {
		t.Errorf("a watch that delivers nothing is lost because of %q", why)
	}
}

// While a watch could not be created, direct gets only began after 5 s. Here no watch can
// be created, and another peer's writes still reach the view during the first attempts.
func TestFault21DirectGets(t *testing.T) {
	t.Parallel()
	attempts := int64(3) // each shorter than 5 s
	if os.Getenv("KVSLOTS_SOAK") != "" {
		attempts = 1
	}
	cluster := kvslotstest.StartCluster(t)
	b, stream := openUnwatchable(t, cluster)
	other, err := Open(t.Context(), cluster.Connect(), Config{Replicas: 3, Logger: logtest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close(context.Background()) })
	stream.broken.Store(true)
	var o order
	b.Look(func(*peer.Peer, peer.Instant) { o = b.watch })
	b.watchLost(o, nil)
	if _, err := other.Do(t.Context(), peer.Register{Pool: entry.HashOf("pool", t.Name()), Count: 3}); err != nil {
		t.Fatal(err)
	}
	for written := reached(other); reached(b) < written; pause(t.Context(), time.Millisecond) {
		if n := stream.attempts.Load(); n > attempts {
			t.Fatalf("the view stands at %d, not %d, in attempt %d to create a watch", reached(b), written, n)
		}
	}
}

// reached returns the revision up to which the view of a bucket is complete.
func reached(b *Bucket) (revision uint64) {
	b.Look(func(*peer.Peer, peer.Instant) { revision = b.progress.reached })
	return revision
}
