package bucket

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// overdue is how late a revision that an answer named may be delivered.
const overdue = 300 * time.Millisecond

// progress is how far the deliveries have come.
type progress struct {
	reached   uint64       // the highest revision that was delivered
	pending   uint64       // number of entries that follow, as the server said with the latest delivery
	known     uint64       // the highest revision that an answer to a write named
	overdueAt peer.Instant // when the delivery of known becomes overdue
	caughtUp  peer.Instant // when the server last showed that nothing was left to be delivered
}

// delivered records a delivery with which the server announced pending further entries.
func (p *progress) delivered(revision, pending uint64, now peer.Instant) {
	p.reached, p.pending = max(p.reached, revision), pending
	p.noteCaughtUp(now)
}

// noteCaughtUp sets caughtUp, at a delivery or a heartbeat, if nothing is left to be
// delivered.
func (p *progress) noteCaughtUp(now peer.Instant) {
	if p.pending == 0 && p.known <= p.reached {
		p.caughtUp = now
	}
}

// lag returns how many revisions a view is behind the stream, as far as the server has
// said.
func (p *progress) lag(view uint64) uint64 {
	last := max(p.known, p.reached+p.pending)
	return last - min(view, last)
}

// expect records a revision that the watch has to deliver, because an answer to a write
// named it: the write's own, or that of the entry for which the write was refused.
func (p *progress) expect(revision uint64, now peer.Instant) {
	if revision <= p.reached || revision <= p.known {
		return
	}
	if p.known <= p.reached {
		p.overdueAt = now.Add(overdue)
	}
	p.known = revision
}

func (p *progress) isOverdue(now peer.Instant) bool { return p.known > p.reached && now > p.overdueAt }
