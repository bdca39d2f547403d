package kvslots

import (
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// requeue is for a borrower whose claim came to nothing.
func (b *bucket) requeue(lp *local, p *rules.Pool, op *borrow) {
	delete(lp.claims, op)
	op.claim = claim{number: op.claim.number + 1} // its answer, if it is still to come, is for nobody
	switch {
	case op.over:
	case op.manner == promotes && (p == nil || p.Ticket(op.ticket) == nil):
		b.finish(lp, op, nil, ErrNoSlot)
	case op.ticket != 0 && p != nil && p.Ticket(op.ticket) != nil:
		put(&lp.waiting, op.ticket, op)
		if !op.named() && p.Incarnation() != op.incarnation {
			b.review(lp)
		}
		if op.expired {
			b.refuseLater(lp, op)
		}
	case op.ticket != 0: // its ticket went with an earlier presence
		op.ticket = 0
		fallthrough
	default:
		lp.queue = slices.Insert(lp.queue, 0, op)
	}
}

// failed deals with a write that was not written, or of which nothing is known.
// It returns false when the borrower was told so.
func (b *bucket) failed(lp *local, op *borrow, err error) bool {
	now := b.now()
	switch {
	case errors.Is(err, errConflict):
		op.failing = 0
		return true
	case errors.Is(err, errInFlight):
		b.pause(lp, conflictPause)
		return true
	case errors.Is(err, errUnknown), errors.Is(err, errGone):
	default:
		if op.failing == 0 {
			op.failing = now
		}
		if now-op.failing < rules.Instant(patience) {
			b.pause(lp, failurePause)
			return true
		}
	}
	b.finish(lp, op, nil, ErrUnavailable)
	return false
}

// pause keeps a pool's borrowers from writing for a while.
func (b *bucket) pause(lp *local, d time.Duration) {
	lp.paused = max(lp.paused, b.now().Add(d))
	time.AfterFunc(d+time.Millisecond, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dirty[lp.id] = struct{}{}
		b.follow()
	})
}
