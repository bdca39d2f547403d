package bucket

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// lookEvery is how often the number of the stream's copies is looked at.
const lookEvery = time.Second

// lookAtCopies begins a new reading if the stream had one copy and has several now: a
// refusal by a single server proves that it is up to date, and one by a leader of several
// does not.
func (b *Bucket) lookAtCopies() {
	var copies int
	b.WithPeer(func(*peer.Peer, peer.Instant) {
		if copies = b.copies; b.order == nil || !b.progress.joined || b.order.lost {
			copies = 0
		}
	})
	if copies != 1 || b.sole || !b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(b.open, lookEvery)
	defer cancel()
	info, err := b.stream.Info(ctx)
	if err != nil || info.Config.Replicas == copies {
		return
	}
	b.log.Info("the bucket's number of copies has changed", "replicas", info.Config.Replicas)
	b.input(b.open, func(_ *peer.Peer, now peer.Instant) { b.interrupt(now) })
}
