package bucket

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// reply is an answer of the peer, and the call that it is for.
type reply struct {
	call   *Call
	answer peer.Answer
}

// tell hands answers to their callers. If the server flushes later than it
// acknowledges, it does so once everything that the answers rest on is durable:
// what was written, and what was only read, since entries can be read before they
// are flushed.
func (b *Bucket) tell(answers []reply) {
	if len(answers) == 0 {
		return
	}
	b.durable(func(err error) {
		b.Look(func(p *peer.Peer, now peer.Instant) {
			for i := range answers {
				if err == nil {
					p.Told(&answers[i].answer, now) // the time of a lease begins now
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

// tellsNothing reports whether an answer says nothing of the bucket: it need not
// wait for a flush.
func tellsNothing(a peer.Answer) bool {
	return a.Err == peer.ErrUnavailable || a.Err == peer.ErrClosed
}
