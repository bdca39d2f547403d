package bucket

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// consumerless is a stream that has no consumers any more.
type consumerless struct {
	jetstream.Stream
	broken atomic.Bool
}

func (s *consumerless) CreatePushConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.PushConsumer, error) {
	if s.broken.Load() {
		return nil, errors.New("no consumer")
	}
	return s.Stream.CreatePushConsumer(ctx, cfg)
}

// While a server that was cut off counted as alive, or the meta leader was away, a consumer could
// not be created, and the peer did not catch up for seconds. A short catch-up needs none.
func TestCatchUpWithoutConsumer(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t, "").Connect()
	other := openBucket(t, nc, Config{Replicas: 1})
	s := &consumerless{}
	b := notStarted(t, nc, func(stream jetstream.Stream) jetstream.Stream {
		s.Stream = stream
		return s
	})
	natstest.Must(t, b.start(t.Context()))
	t.Cleanup(func() { b.Close(context.Background()) })
	live(t, b)
	s.broken.Store(true)
	for _, pool := range []string{"a", "b", "c"} {
		b.feed.unsubscribe()
		registers(t, other, pool)
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) { b.interrupt(now) })
		live(t, b)
		if n := count(t, b, pool); n != 3 {
			t.Errorf("pool %s has count %d", pool, n)
		}
	}
	if m := b.Metrics(); m.Rebuilds != 0 {
		t.Errorf("the view was built anew %d times", m.Rebuilds)
	}
}

// A consumer reads if nothing answers the requests for entries.
func TestCatchUpWithoutFetch(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, "", restricted(&server.Permissions{Publish: &server.SubjectPermission{Deny: []string{fetchSubject}}}))
	b := openBucket(t, connectAs(t, srv, "kvslots"), Config{Replicas: 1})
	for range 3 {
		before := readings(b)
		b.WithPeer(func(_ *peer.Peer, now peer.Instant) { b.interrupt(now) })
		live(t, b)
		if n := readings(b) - before; n != 2 {
			t.Errorf("the peer has ordered %d readings", n)
		}
	}
}

// An error other than that there is no entry, as of a leader that is starting, is no answer.
func TestFetchNotesAnswers(t *testing.T) {
	for data, noted := range map[string]bool{
		`{"message":{"seq":7}}`:        true,
		`{"error":{"err_code":10037}}`: true,
		`{"error":{"err_code":10008}}`: false,
		`{"error":{"code":503}}`:       false,
		`-ERR`:                         false,
	} {
		f := &fetch{next: 5, answers: map[uint64]*jetstream.RawStreamMsg{}}
		f.note(&nats.Msg{Subject: "inbox.5", Data: []byte(data)})
		if _, ok := f.answers[5]; ok != noted {
			t.Errorf("%s: noted %t", data, ok)
		}
	}
}
