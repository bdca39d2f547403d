package bucket

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// reply is an answer of the peer, and the call that it is for.
type reply struct {
	call   *call
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
	b.durable(func(err error) { b.flushed(answers, err) })
}

// flushed tells what was held back. The time of a lease begins now.
func (b *Bucket) flushed(answers []reply, err error) {
	if err != nil {
		err = fmt.Errorf("%w: %w", peer.ErrUnavailable, err)
	}
	b.mu.Lock()
	now := b.now()
	for i := range answers {
		if err == nil {
			b.peer.Told(&answers[i].answer, now)
		} else {
			b.peer.Untold(&answers[i].answer, err, now)
		}
	}
	b.settle()
	hand(answers)
}

func hand(answers []reply) {
	for _, t := range answers {
		t.call.answered <- t.answer
	}
}

// tellsNothing reports whether an answer says nothing of the bucket: it need not
// wait for a flush.
func tellsNothing(a peer.Answer) bool {
	return a.Err == peer.ErrUnavailable || a.Err == peer.ErrClosed
}
