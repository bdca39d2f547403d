package bucket

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// reply is an answer of the peer that has to wait for a flush, with its call.
type reply struct {
	call   *Call
	answer peer.Answer
}

// flush delivers answers to their callers once all that they depend on is durable:
// the entries written, and the entries read, since an entry can be read before it is
// flushed.
func (b *Bucket) flush(answers []reply) {
	if len(answers) == 0 {
		return
	}
	b.durable(func(err error) {
		b.Look(func(p *peer.Peer, now peer.Instant) {
			for i := range answers {
				if err == nil {
					p.Told(&answers[i].answer, now) // the ttl of a lease begins now
				} else {
					p.Untold(&answers[i].answer, fmt.Errorf("%w: %w", peer.ErrUnavailable, err), now)
				}
			}
		})
		for i := range answers {
			answers[i].call.settle(&answers[i].answer)
		}
	})
}

// needsNoFlush reports whether an answer depends on no entry of the bucket, or is for
// Ready, which waits for the flush itself.
func needsNoFlush(r peer.Request, a peer.Answer) bool {
	_, confirms := r.(peer.Confirm)
	return confirms || a.Err == peer.ErrUnavailable || a.Err == peer.ErrClosed
}
