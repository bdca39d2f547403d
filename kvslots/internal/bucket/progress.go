package bucket

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// overdue is the time until the delivery of a revision that an answer named is overdue.
const overdue = 300 * time.Millisecond

// progress is how far the deliveries have come.
type progress struct {
	reached uint64       // the highest revision that was delivered
	pending uint64       // entries of which the server said at that delivery that they follow
	known   uint64       // the highest revision that an answer to a write named
	overdue peer.Instant // when the delivery of known becomes overdue
	level   peer.Instant // when the server last showed that nothing was left to be delivered
}

// delivered records a delivery, behind which there were pending further entries.
func (p *progress) delivered(revision, pending uint64, now peer.Instant) {
	p.reached, p.pending = max(p.reached, revision), pending
	p.heard(now)
}

// heard records that the server has delivered an entry, or has nothing to deliver.
func (p *progress) heard(now peer.Instant) {
	if p.pending == 0 && p.known <= p.reached {
		p.level = now
	}
}

// lag returns how many revisions a view is behind the stream, as far as the server has
// said.
func (p *progress) lag(view uint64) uint64 {
	last := max(p.known, p.reached+p.pending)
	return last - min(view, last)
}

// named records that an answer to a write named a revision, which the watch has to deliver:
// the write's own, or that of the entry because of which it was refused.
func (p *progress) named(revision uint64, now peer.Instant) {
	if revision <= p.reached || revision <= p.known {
		return
	}
	if p.known <= p.reached {
		p.overdue = now.Add(overdue)
	}
	p.known = revision
}

func (p *progress) isOverdue(now peer.Instant) bool { return p.known > p.reached && now > p.overdue }
