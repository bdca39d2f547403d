package bucket

import (
	"fmt"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// flush delivers the answers of calls when all entries that they depend on are durable,
// those that were only read, too, since an entry can be read before it is flushed. Callers
// that have gone meanwhile get no answer.
func (b *Bucket) flush(calls []*call) {
	b.durable(func(err error) {
		b.WithPeer(func(p *peer.Peer, now peer.Instant) {
			calls = slices.DeleteFunc(calls, func(c *call) bool { return c.abandoned })
			for _, c := range calls {
				c.flushing = false
				if err == nil {
					p.Told(&c.answer, now) // the ttl of a lease begins now
				} else {
					p.Untold(&c.answer, fmt.Errorf("%w: %w", peer.ErrUnavailable, err), now)
				}
			}
		})
		for _, c := range calls {
			c.answered <- struct{}{}
		}
	})
}

// needsNoFlush reports whether an answer depends on no entry of the bucket, or is for Ready, which
// waits for the flush itself.
func needsNoFlush(r peer.Request, a peer.Answer) bool {
	_, ready := r.(peer.Confirm)
	return ready || a.Err == peer.ErrUnavailable || a.Err == peer.ErrClosed
}
