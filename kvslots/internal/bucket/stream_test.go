package bucket

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Peers that start together on a fresh cluster all open the same stream. While one
// creates it, the others may be told that the name is in use, and then that the
// stream is not found.
//
// Each round has a cluster of its own. The servers do not forget a deleted stream at the
// same time, so a round after a deletion could open the stream of the round before.
func TestOpenTogether(t *testing.T) {
	for round := range 3 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			openTogether(t, natstest.StartCluster(t))
		})
	}
}

func openTogether(t *testing.T, cluster *natstest.Cluster) {
	var sides []jetstream.JetStream
	for i := range 12 {
		js := natstest.JetStream(t, cluster.Servers[i%len(cluster.Servers)].Connect())
		sides = append(sides, js)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	created := map[time.Time]int{}
	var wg sync.WaitGroup
	for _, js := range sides {
		wg.Go(func() {
			stream, err := openStream(ctx, js, 3)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			created[stream.CachedInfo().Created]++
		})
	}
	wg.Wait()
	if len(created) != 1 {
		t.Errorf("opened %v", created)
	}
	// A server that stops while it creates its replica leaves a goroutine behind.
	natstest.Eventually(t, "each server has the stream", func() bool {
		stream, err := sides[0].Stream(ctx, StreamName)
		return err == nil && !slices.ContainsFunc(stream.CachedInfo().Cluster.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current })
	})
}

// Open reports at once that an account has no JetStream.
func TestOpenWithoutJetStream(t *testing.T) {
	nc := natstest.Start(t, "", func(o *server.Options) { o.JetStream = false }).Connect()
	js := natstest.JetStream(t, nc)
	if _, err := openStream(t.Context(), js, 1); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}
