package bucket

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
	asked     chan struct{}
	questions atomic.Int64
}

func (s *unanswered) PushConsumer(ctx context.Context, _ string) (jetstream.PushConsumer, error) {
	s.questions.Add(1)
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A gateway with 100,000 pools did not load them on a busy machine: the answer about its
// consumer came behind too many entries, and the gateway replaced the watch and began anew
// each time. Here an entry arrives with each question, and no question is answered.
func TestLoadWithLateAnswers(t *testing.T) {
	t.Parallel()
	const pools, enough = 3, 20 // questions
	nc := kvslotstest.Start(t, t.TempDir()).Connect()
	earlier, err := Open(t.Context(), nc, Config{Logger: logtest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pools {
		if _, err := earlier.Do(t.Context(), peer.Register{Pool: entry.HashOf("pool", strconv.Itoa(i)), Count: 3}); err != nil {
			t.Fatal(err)
		}
	}
	earlier.Close(t.Context())

	s := &unanswered{Stream: earlier.stream, asked: make(chan struct{})}
	hook := func(m *nats.Msg, next func(*nats.Msg)) {
		if s.questions.Load() < enough {
			select {
			case <-s.asked:
			case <-t.Context().Done():
			}
		}
		next(m)
	}
	b := newBucket(nc, earlier.js, s, Config{Logger: logtest.Logger(), Hook: hook})
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	if err := b.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.questions.Load(); n >= enough {
		t.Errorf("the view was not loaded within %d questions", n)
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
