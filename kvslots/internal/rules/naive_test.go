package rules_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// naive is the simplest implementation of the rules: it keeps the last entry of each
// key, and looks at all of them for every answer.
type naive struct {
	last     map[entry.Key]entry.Entry
	seen     map[entry.Key]rules.Instant
	void     map[uint64]bool          // claims that are not good, by revision
	excluded map[uint64]bool          // likewise
	stalled  map[entry.Hash]bool      // sessions that are passed over
	passed   map[uint64]bool          // enqueued tickets that are passed over, by revision
	turn     map[uint64]rules.Instant // since when it has been a ticket's turn, by revision
}

func newNaive() *naive {
	return &naive{
		last: map[entry.Key]entry.Entry{}, seen: map[entry.Key]rules.Instant{},
		void: map[uint64]bool{}, excluded: map[uint64]bool{}, stalled: map[entry.Hash]bool{},
		passed: map[uint64]bool{}, turn: map[uint64]rules.Instant{},
	}
}

func valid(e entry.Entry) bool { return e.Revision != 0 && !e.Marker && e.Corrupt == nil }

func (n *naive) apply(e entry.Entry, age time.Duration, now rules.Instant) {
	n.last[e.Key], n.seen[e.Key] = e, now.Add(-age)
	switch e.Key.Kind {
	case entry.Slot:
		if valid(e) && e.Slot.Fence == 0 {
			n.heard(e.Slot.Claimer)
			n.judge(e)
		}
	case entry.Ticket:
		if valid(e) {
			n.heard(cmp.Or(e.Ticket.Peer, e.Key.Session))
		}
	case entry.Session, entry.Barrier:
		n.heard(e.Key.Session)
	}
	n.turns(now)
}

// heard records a sign of life of a session.
func (n *naive) heard(id entry.Hash) {
	if !n.stalled[id] {
		return
	}
	delete(n.stalled, id)
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && (e.Key.Session == id || e.Ticket.Peer == id) {
			delete(n.turn, e.Revision)
		}
	}
}

func (n *naive) config(pool entry.Hash) entry.ConfigValue {
	if e := n.last[rules.ConfigKey(pool)]; valid(e) {
		return e.Config
	}
	return entry.ConfigValue{}
}

func (n *naive) alive(id entry.Hash) bool { return valid(n.last[rules.SessionKey(id)]) }

// of returns a pool's entries of one kind for which is returns true, in order of
// place or position.
func (n *naive) of(pool entry.Hash, kind entry.Kind, is func(entry.Entry) bool) []entry.Entry {
	var found []entry.Entry
	for _, e := range n.last {
		if e.Key.Kind == kind && e.Key.Pool == pool && is(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(x, y entry.Entry) int {
		return cmp.Or(cmp.Compare(place(x), place(y)), cmp.Compare(x.Key.N, y.Key.N))
	})
	return found
}

// place returns a ticket's place in the line, or 0 for other entries.
func place(e entry.Entry) uint64 {
	if e.Key.Kind != entry.Ticket {
		return 0
	}
	return cmp.Or(e.Ticket.Place, e.Revision)
}

func (n *naive) lives(e entry.Entry) bool {
	return e.Key.Kind == entry.Slot && valid(e) && e.Slot.Generation == n.config(e.Key.Pool).Generation &&
		(e.Slot.Session.IsZero() || n.alive(e.Slot.Session))
}

func (n *naive) live(pool entry.Hash) []entry.Entry { return n.of(pool, entry.Slot, n.lives) }

// ticketAt returns the ticket of a place in the line.
func (n *naive) ticketAt(pool entry.Hash, at uint64) (entry.Entry, bool) {
	found := n.of(pool, entry.Ticket, func(e entry.Entry) bool { return valid(e) && place(e) == at })
	if len(found) == 0 {
		return entry.Entry{}, false
	}
	return found[0], true
}

// named reports whether a live slot other than but names the ticket of a place.
func (n *naive) named(pool entry.Hash, at uint64, but entry.Key) bool {
	return slices.ContainsFunc(n.live(pool), func(e entry.Entry) bool { return e.Slot.Ticket == at && e.Key != but })
}

func (n *naive) stands(e entry.Entry) bool {
	holder := e.Ticket.Session
	if e.Ticket.Enqueued() {
		holder = e.Key.Session
	}
	return valid(e) && (holder.IsZero() || n.alive(holder)) && !e.Ticket.Spent &&
		(e.Ticket.Enqueued() || e.Ticket.Grace > 0 || n.alive(cmp.Or(e.Ticket.Peer, e.Key.Session))) &&
		e.Ticket.Generation == n.config(e.Key.Pool).Generation && !n.named(e.Key.Pool, place(e), entry.Key{})
}

func (n *naive) standing(pool entry.Hash) []entry.Entry { return n.of(pool, entry.Ticket, n.stands) }

func (n *naive) isStalled(e entry.Entry) bool {
	if e.Ticket.Enqueued() {
		return n.passed[e.Revision]
	}
	return n.stalled[cmp.Or(e.Ticket.Peer, e.Key.Session)] || n.absent(e)
}

// absent reports whether a ticket is kept for a repeat, and no caller waits.
func (n *naive) absent(e entry.Entry) bool {
	return e.Ticket.Grace > 0 && (e.Ticket.Away || !n.alive(cmp.Or(e.Ticket.Peer, e.Key.Session)))
}

// count returns how many slots of a pool may be taken.
func (n *naive) count(pool entry.Hash) int {
	if c := n.config(pool); !c.Closing && !n.isOut(pool, entry.WholePool) {
		return c.Count
	}
	return 0
}

func (n *naive) isOut(pool entry.Hash, position int) bool {
	return slices.ContainsFunc(n.config(pool).Out, func(o entry.Out) bool { return o.Position == position })
}

// busy returns the positions that are live, and those of the pool's slots that are out of service.
func (n *naive) busy(pool entry.Hash) map[int]bool {
	busy := map[int]bool{}
	for _, e := range n.live(pool) {
		busy[e.Key.N] = true
	}
	for i := range n.count(pool) {
		if n.isOut(pool, i) {
			busy[i] = true
		}
	}
	return busy
}

// waiting returns the tickets in the line that are not passed over.
func (n *naive) waiting(pool entry.Hash) []entry.Entry {
	return slices.DeleteFunc(n.standing(pool), n.isStalled)
}

// judge judges a claim by all entries at its revision.
func (n *naive) judge(e entry.Entry) {
	count, live := n.count(e.Key.Pool), n.live(e.Key.Pool)
	n.excluded[e.Revision] = !n.lives(e) || e.Key.N >= count || n.isOut(e.Key.Pool, e.Key.N)
	at := e.Revision
	if at = cmp.Or(e.Slot.Ticket, at); at != e.Revision {
		t, ok := n.ticketAt(e.Key.Pool, at)
		if !ok || t.Ticket.Spent || t.Ticket.Generation != e.Slot.Generation || n.named(e.Key.Pool, at, e.Key) {
			n.excluded[e.Revision] = true
		}
	}
	if key := e.Slot.Request; !key.IsZero() && slices.ContainsFunc(live, func(o entry.Entry) bool { return o.Key != e.Key && o.Slot.Request == key }) {
		n.excluded[e.Revision] = true
	}
	ahead := 0
	for _, t := range n.waiting(e.Key.Pool) {
		if place(t) < at {
			ahead++
		}
	}
	busy := n.busy(e.Key.Pool)
	free := 0 // positions below
	for i := range e.Key.N {
		if !busy[i] {
			free++
		}
	}
	n.void[e.Revision] = n.excluded[e.Revision] || len(busy) > count || ahead > count-len(busy) || free > ahead
}

// good reports whether a slot has a claim that may be granted, or was written again.
func (n *naive) good(e entry.Entry) bool { return !e.Marker && !n.void[e.Revision] }

func (n *naive) inDoubt(e entry.Entry, now rules.Instant) bool {
	return n.lives(e) && !n.good(e) && now-n.seen[e.Key] < rules.Instant(time.Second)
}

// able returns the tickets for which there is a permit; one that is passed over
// takes none.
func (n *naive) able(pool entry.Hash) []entry.Entry {
	free := n.count(pool) - len(n.busy(pool))
	var found []entry.Entry
	for _, t := range n.standing(pool) {
		switch {
		case free <= 0:
			return found
		case n.absent(t):
			continue
		}
		if found = append(found, t); !n.isStalled(t) {
			free--
		}
	}
	return found
}

// turns records since when it has been each ticket's turn.
func (n *naive) turns(now rules.Instant) {
	turn := map[uint64]rules.Instant{}
	for i := range historyPools {
		for _, t := range n.able(poolID(i)) {
			if !n.isStalled(t) {
				turn[t.Revision] = cmp.Or(n.turn[t.Revision], now)
			}
		}
	}
	n.turn = turn
}

func (n *naive) passOver(now rules.Instant) {
	for _, e := range n.last {
		if since := n.turn[e.Revision]; e.Key.Kind != entry.Ticket || since == 0 || now.Sub(since) < rules.StallTime {
			continue
		}
		if e.Ticket.Enqueued() {
			n.passed[e.Revision] = true
		} else {
			n.stalled[cmp.Or(e.Ticket.Peer, e.Key.Session)] = true
		}
	}
	n.turns(now)
}

// choose returns the lowest free position that is left when every borrow before this
// one has taken one. The peer's writes in flight count as written.
func (n *naive) choose(pool entry.Hash, at uint64, own *rules.InFlight) (position int, ok bool) {
	busy, served := n.busy(pool), map[uint64]bool{}
	for i, c := range own.Claims {
		busy[i], served[c.Place] = true, true
	}
	before := 0
	if at == 0 {
		before = own.Joining
	}
	for _, t := range n.waiting(pool) {
		if (at == 0 || place(t) < at) && !served[place(t)] {
			before++
		}
	}
	count := n.count(pool)
	if len(busy)+before >= count {
		return 0, false
	}
	for position < count && (busy[position] || before > 0) {
		if !busy[position] {
			before--
		}
		position++
	}
	return position, position < count
}
