package rules_test

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// naiveName is what is in force in a named pool. It is kept for one thing that
// the last entries alone do not tell: which of the terms that disagree were
// there before.
type naiveName struct {
	inUse     bool         // somebody holds it, or waits for it
	naming    entry.Naming // the terms it has, or had last
	idleSince rules.Instant
}

// derive finds the terms of every named pool.
func (n *naive) derive(now rules.Instant) {
	for pool := range n.pools() {
		p := n.named[pool]
		naming, ok := n.inForce(pool)
		switch {
		case ok:
			n.named[pool] = &naiveName{inUse: true, naming: naming}
		case p != nil && p.inUse:
			p.inUse, p.idleSince = false, now
		}
	}
}

// pools are all of which there was ever an entry.
func (n *naive) pools() map[entry.Hash]bool {
	found := map[entry.Hash]bool{}
	for key := range n.seen {
		found[key.Pool] = true
	}
	return found
}

// inForce are the terms of the live slots: those that were in force before, if
// any still has them, or else the least. Where there is no live slot they are
// those of the first who waits.
func (n *naive) inForce(pool entry.Hash) (naming entry.Naming, ok bool) {
	for _, e := range n.live(pool) {
		if of := terms(e.Slot.Naming); of.Name != "" && (!ok || of.Terms() < naming.Terms()) {
			naming, ok = of, true
		}
	}
	for _, e := range n.live(pool) {
		if p := n.named[pool]; p != nil && p.inUse && terms(e.Slot.Naming) == p.naming {
			naming = p.naming
		}
	}
	if ok {
		return naming, true
	}
	var first uint64
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == pool && e.Wait.Name != "" && n.asks(e) && !n.served(e) && (!ok || e.Revision < first) {
			naming, first, ok = terms(e.Wait.Naming), e.Revision, true
		}
	}
	return naming, ok
}

// terms are a name and terms without what else is said of somebody who asks.
func terms(n entry.Naming) entry.Naming {
	n.Nonce = entry.Hash{}
	return n
}

// disputed tells whether there are live slots under different terms.
func (n *naive) disputed(pool entry.Hash) bool {
	live := n.live(pool)
	for _, e := range live {
		if e.Slot.Terms() != live[0].Slot.Terms() {
			return true
		}
	}
	return false
}

// agreed tells whether all live slots, and all who want one, have the same terms.
func (n *naive) agreed(pool entry.Hash) bool {
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == pool && n.inLine(e) && n.there(e) && !e.Wait.Spent && e.Wait.Incarnation != n.config(pool).Incarnation {
			return false
		}
	}
	return !n.disputed(pool)
}

func fenceOf(e entry.Entry) uint64 {
	if e.Slot.Fence == 0 {
		return e.Revision
	}
	return e.Slot.Fence
}

// owned tells whether whoever owns the slot is there. An id is used once.
func (n *naive) owned(e entry.Entry) bool {
	return e.Slot.Session.IsZero() || valid(n.last[sessionKey(e.Slot.Session)]) && n.ended[e.Slot.Session] < e.Revision
}

// asks tells whether there is somebody who wants what the ticket asks for.
func (n *naive) asks(e entry.Entry) bool {
	return n.inLine(e) && !n.void[e.Revision] && !e.Wait.Spent && n.there(e)
}

// there tells whether the session that a ticket is of is alive.
func (n *naive) there(e entry.Entry) bool { return valid(n.last[sessionKey(e.Wait.Session)]) }

// inLine tells whether a ticket's place is known.
func (n *naive) inLine(e entry.Entry) bool {
	return e.Key.Kind == entry.Ticket && valid(e) && !n.dropped[e.Revision]
}

// comes tells whether a ticket that has just come asks for other terms than
// those in force, and whether these may be about to go.
func (n *naive) comes(e entry.Entry, now rules.Instant) (void, unsure bool) {
	pool := e.Key.Pool
	if inForce := n.config(pool).Incarnation; e.Wait.Name == "" || inForce == 0 || e.Wait.Terms() == inForce {
		return false, false
	}
	for _, s := range n.live(pool) {
		unsure = unsure || n.inDoubt(s, now)
	}
	unsure = unsure || n.disputed(pool)
	return !unsure, unsure
}

// disagrees tells whether a claim is under other terms than a live slot, or
// than somebody who waits before it.
func (n *naive) disagrees(e entry.Entry, now rules.Instant) bool {
	if e.Slot.Name == "" {
		return false
	}
	for _, other := range n.live(e.Key.Pool) {
		if other.Slot.Terms() != e.Slot.Terms() {
			return true
		}
	}
	return n.hindered(e.Key.Pool, e.Slot.Terms(), place(e)-1, e.Revision, now)
}

// hindered tells whether somebody waits in a named pool, at most at that place,
// under other terms, and nobody but the one who claims has a lease under these.
func (n *naive) hindered(pool entry.Hash, terms, last, claim uint64, now rules.Instant) bool {
	for _, e := range n.live(pool) {
		if e.Slot.Terms() == terms && e.Revision != claim && !n.inDoubt(e, now) {
			return false
		}
	}
	for _, t := range n.last {
		if t.Key.Kind == entry.Ticket && t.Key.Pool == pool && n.asks(t) && !n.served(t) && !n.stalled[t.Wait.Session] &&
			t.Revision <= last && t.Wait.Terms() != terms {
			return true
		}
	}
	return false
}

func (n *naive) ticket(pool entry.Hash, revision uint64) (entry.Entry, bool) {
	for _, e := range n.last {
		if e.Key.Pool == pool && e.Revision == revision && n.inLine(e) {
			return e, true
		}
	}
	return entry.Entry{}, false
}

// serve notes which slot has claimed for a ticket: the first that came.
func (n *naive) serve(e entry.Entry) {
	if t, ok := n.ticket(e.Key.Pool, e.Slot.Ticket); ok && !n.served(t) {
		n.serves[t.Revision] = e.Key
	}
}

func (n *naive) served(t entry.Entry) bool {
	e := n.last[n.serves[t.Revision]]
	return n.lives(e) && e.Slot.Ticket == t.Revision
}

// elsewhere tells whether a claim in a named pool is for a ticket that is not
// to be had: it is not in the line, or another has claimed for it.
func (n *naive) elsewhere(e entry.Entry) bool {
	if e.Slot.Name == "" || e.Slot.Ticket == 0 {
		return false
	}
	t, ok := n.ticket(e.Key.Pool, e.Slot.Ticket)
	return !ok || t.Wait.Spent || n.serves[t.Revision] != e.Key
}
