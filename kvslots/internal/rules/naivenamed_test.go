package rules_test

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// naiveName is what is in force in a named pool. It is the one thing that the
// last entries alone do not tell: of those who disagree it is who came first.
type naiveName struct {
	held      bool // somebody holds it, or waits for it
	naming    entry.Naming
	idleSince rules.Instant
}

// derive finds the terms of every named pool: those in force, for as long as
// anybody keeps them up, and then those of the eldest.
func (n *naive) derive(now rules.Instant) {
	for pool := range n.pools() {
		p := n.named[pool]
		if p != nil && p.held && n.supported(pool) {
			continue
		}
		eldest, ok := n.eldest(pool)
		switch {
		case ok:
			n.named[pool] = &naiveName{held: true, naming: eldest}
		case p != nil && p.held:
			p.held, p.idleSince = false, now
		}
	}
}

// pools are all of which there was ever an entry.
func (n *naive) pools() map[entry.Hash]bool {
	found := map[entry.Hash]bool{}
	for key := range n.last {
		found[key.Pool] = true
	}
	return found
}

// supported tells whether a lease or a ticket in the line agrees with the terms
// in force. A claim that is void is neither.
func (n *naive) supported(pool entry.Hash) bool {
	for _, e := range n.live(pool) {
		if n.verdictOf(e) != rules.Void {
			return true
		}
	}
	return len(n.standing(pool)) > 0
}

func (n *naive) eldest(pool entry.Hash) (naming entry.Naming, ok bool) {
	var first uint64
	consider := func(of entry.Naming, since uint64) {
		if of.Name != "" && (!ok || since < first) {
			naming, first, ok = of, since, true
		}
	}
	for _, e := range n.slots(pool) {
		if valid(e) && n.owned(e) && n.verdictOf(e) != rules.Void {
			consider(e.Slot.Naming, fenceOf(e))
		}
	}
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == pool && n.asks(e) {
			consider(e.Wait.Naming, e.Revision)
		}
	}
	naming.Nonce = entry.Hash{}
	return naming, ok
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
	return n.inLine(e) && !n.void[e.Revision] && !e.Wait.Spent && valid(n.last[sessionKey(e.Wait.Session)])
}

// inLine tells whether a ticket's place is known.
func (n *naive) inLine(e entry.Entry) bool {
	return e.Key.Kind == entry.Ticket && valid(e) && !n.dropped[e.Revision]
}

// disagrees tells whether a ticket that has just come asks for other terms than
// those in force. That of a session that is not there yet is not asked.
func (n *naive) disagrees(e entry.Entry) bool {
	return e.Wait.Name != "" && !e.Wait.Spent && valid(n.last[sessionKey(e.Wait.Session)]) &&
		e.Wait.Terms() != n.config(e.Key.Pool).Incarnation
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
	return !ok || n.void[t.Revision] || t.Wait.Spent || n.serves[t.Revision] != e.Key
}
