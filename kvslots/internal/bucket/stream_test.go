package bucket

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Peers that start together on a fresh cluster all open the same stream. While one
// creates it, the others may be told that the name is in use, and then that the
// stream is not found.
func TestOpenTogether(t *testing.T) {
	cluster := kvslotstest.StartCluster(t)
	const peers, rounds = 12, 4
	var sides []jetstream.JetStream
	for i := range peers {
		js, err := jetstream.New(cluster.Servers[i%len(cluster.Servers)].Connect())
		if err != nil {
			t.Fatal(err)
		}
		sides = append(sides, js)
	}
	for round := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var mu sync.Mutex
		created := map[time.Time]int{}
		var wg sync.WaitGroup
		for _, js := range sides {
			wg.Go(func() {
				stream, err := openStream(ctx, js, 3)
				if err != nil {
					t.Error(round, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				created[stream.CachedInfo().Created]++
			})
		}
		wg.Wait()
		cancel()
		if len(created) != 1 {
			t.Errorf("round %d: opened %v", round, created)
		}
		remove(t, sides)
	}
}

// remove deletes the stream and waits until no server knows it.
func remove(t *testing.T, sides []jetstream.JetStream) {
	t.Helper()
	_ = sides[0].DeleteStream(t.Context(), StreamName)
	for _, js := range sides {
		for {
			_, err := js.Stream(t.Context(), StreamName)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
			pause(t.Context(), 10*time.Millisecond)
		}
	}
}

// Open reports at once that an account has no JetStream.
func TestOpenWithoutJetStream(t *testing.T) {
	nc := kvslotstest.Start(t, "", func(o *server.Options) { o.JetStream = false }).Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStream(t.Context(), js, 1); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}
