package kvslots

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// On a cluster with a replicated bucket, peers at different servers are one semaphore,
// also while the stream's leader changes.
func TestReplicated(t *testing.T) {
	besideOthers(t)
	cluster := natstest.StartCluster(t)
	nc := cluster.Connect()
	runHistory(t, setting{
		peers: 3, clients: 20, pools: 20, replicas: 3, length: *historyTime, seed: *historySeed,
		connect: func(int) *nats.Conn { return cluster.Connect() },
		disturb: func(ctx context.Context, _ []*Store, _ *rand.Rand) {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(2 * time.Second):
				}
				_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+bucket.StreamName, nil, time.Second)
			}
		},
	})
}
