package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// unseenLife is how much later than the view's time the peer may have written a message
// that the view does not show yet.
const unseenLife = 20 * time.Second

// discard purges a key at a revision. No caller waits for that: the peer repeats the
// purge until the view shows that the key has another revision. done may be nil. A slot that is
// discarded is one that no caller was told of.
func (p *post) discard(key entry.Key, revision uint64, done func(*write)) {
	m := p.purge(key, revision)
	if key.Kind == entry.Slot {
		m.Cause = entry.Withdrawn
	}
	p.discardAs(m, done)
}

func (p *post) discardAs(m entry.Message, done func(*write)) {
	p.discarding++
	view := p.view()
	p.putIn(&p.queues[discards], m, func(w *write) {
		p.discarding--
		if w.unknown() && w.revision() == 0 && p.view() == view {
			p.discardAs(m, done)
			return
		}
		if done != nil {
			done(w)
		}
	})
}

// fenceOff makes sure that a write with unknown outcome takes no effect later. It purges the
// key at the revision that the write expects: either the purge wins the compare-and-swap, or
// the view shows what did. If that is the write itself, its entry is purged as an orphan. The
// marker outlives the write, which the view need not show yet.
//
// If the view was built anew since the write was sent, the revision means nothing any more,
// and nothing is sent.
func (w *write) fenceOff() {
	if w.decidedIn != w.p.view() || len(w.ids) == 0 {
		return
	}
	m := w.p.purge(w.key(), w.msg.Revision)
	m.TTL = max(m.TTL, w.msg.TTL+unseenLife)
	m.Outlives = max(m.Outlives, w.p.view().Time.Add(w.msg.TTL+unseenLife).UnixMilli())
	w.p.discardAs(m, nil)
}
