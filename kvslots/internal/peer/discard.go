package peer

import (
	"maps"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
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

// disown records that no caller was told of what a write has written or may still write, and that none
// will be. If a view shows an entry of a disowned author, this one or one that is built later, the entry
// is undone. The purges that wait for a view go with it, and what they were to undo would stay.
func (w *write) disown() {
	p, life := w.p, w.msg.TTL+unseenLife
	if len(w.ids) == 0 { // refused, maybe by a leader that was deposed
		life = rules.MarkerTTL
	}
	put(&p.disowned, w.author(), p.now().Add(life))
	p.sweepDisowned()
}

// sweepDisowned forgets from time to time the writes whose entries would have ended.
func (p *post) sweepDisowned() {
	if p.disownedSweep.isSet() || len(p.disowned) == 0 {
		return
	}
	p.arm(&p.disownedSweep, p.now().Add(time.Minute), func() {
		maps.DeleteFunc(p.disowned, func(_ uint64, until Instant) bool { return until < p.now() })
		p.sweepDisowned()
	})
}

func (p *post) isDisowned(author uint64) bool {
	_, is := p.disowned[author]
	return is
}

// undo purges an entry of a disowned author. done may be nil.
func (p *post) undo(author uint64, key entry.Key, revision uint64, done func(*write)) {
	p.discard(key, revision, func(w *write) {
		if w.written() {
			delete(p.disowned, author)
		}
		if done != nil {
			done(w)
		}
	})
}

// withdraw disowns a write, and purges what it has written at a revision. done may be nil.
func (w *write) withdraw(revision uint64, done func(*write)) {
	w.disown()
	w.p.undo(w.author(), w.key(), revision, done)
}

// fenceOff disowns a write with unknown outcome, and makes sure that it takes no effect later. It purges
// the key at the revision that the write expects: either the purge wins the compare-and-swap, or the
// view shows what did. The marker outlives the write, which the view need not show yet.
//
// If the view was built anew since the write was sent, the revision means nothing any more, and nothing
// is sent: the write is only disowned.
func (w *write) fenceOff() {
	if !w.sent {
		return
	}
	w.disown()
	if w.decidedIn != w.p.view() || len(w.ids) == 0 {
		return
	}
	m := w.p.purge(w.key(), w.msg.Revision)
	m.TTL = max(m.TTL, w.msg.TTL+unseenLife)
	m.Outlives = max(m.Outlives, w.p.view().Time.Add(w.msg.TTL+unseenLife).UnixMilli())
	w.p.discardAs(m, func(purge *write) {
		if purge.written() {
			delete(w.p.disowned, w.author())
		}
	})
}
