package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// end purges the slot of a lease, and answers with the detail of an eviction. If the purge is
// written, the slot had not changed, but its pool may have been deleted before, or its session may
// have ended. The view knows that if it was live when it applied the purge.
func (h *Held) end(p *leases, c *call, mark entry.Mark, detail *reads.Detail) {
	again := func() { h.end(p, c, mark, detail) }
	h.withLease(p, c, func(s *rules.Slot) {
		ended := p.leased(s, mark.Cause)
		m := p.purgeSlot(s)
		if m.Cause, m.By = mark.Cause, mark.By; m.Cause == entry.NoCause {
			m.Owner = ownerHash(s.Value.Owner)
		}
		p.putFor(c, m, func(w *write) {
			switch {
			case !w.shownLive():
				c.end(ErrUnavailable)
			case !w.ended():
				again()
			default:
				ended()
				c.answer(Answer{Detail: detail})
			}
		}, again)
	}, func(err error) { c.answer(Answer{Err: err}) })
}

// ownerHash returns a hash of an owner for a header, which cannot hold every text; ""
// for no owner.
func ownerHash(owner string) string {
	if owner == "" {
		return ""
	}
	return entry.HashOf(entry.OfOwner, owner).String()
}
