package bucket

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A bucket gets three copies while a peer runs: from then on, a read barrier is a write.
func TestMoreCopies(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t)
	nc := cluster.Connect()
	b := openBucket(t, nc, Config{Replicas: 1})
	live(t, b)
	barriers := func() bool {
		count(t, b, "no such pool")
		stream, err := b.js.Stream(t.Context(), StreamName)
		if err != nil {
			return false
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(SubjectPrefix+"b.>"))
		return err == nil && len(info.State.Subjects) > 0
	}
	if barriers() {
		t.Fatal("a barrier is a write on one copy")
	}
	c := streamOf(t, nc).Config
	c.Replicas = 3
	natstest.Must(t, natstest.Err(b.js.UpdateStream(t.Context(), c)))
	natstest.Eventually(t, "barriers are writes", barriers)
	live(t, b)
	b.WithPeer(func(*peer.Peer, peer.Instant) {
		if b.copies != 3 {
			t.Errorf("%d copies", b.copies)
		}
	})
}
