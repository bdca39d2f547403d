package rules_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// naive is what the rules say, said as dumbly as possible: the last entry of
// each key, and every question answered by looking at all of them.
type naive struct {
	last    map[entry.Key]entry.Entry
	seen    map[entry.Key]rules.Instant
	dropped map[uint64]bool          // tickets that are out of the line for good
	verdict map[uint64]rules.Verdict // of claims, by revision
	stalled map[entry.Hash]bool      // sessions that are passed over
	turn    map[entry.Hash]turn      // whose turn it is, by pool
	due     map[entry.Key]rules.Instant
	ends    map[entry.Key]rules.Instant // of slots, unless they are hurried
	hurried map[entry.Key]bool          // slots that hold nothing, and are to be purged soon
	named   map[entry.Hash]*naiveName   // named pools
	void    map[uint64]bool             // tickets that came while other terms were in force
	unsure  map[uint64]bool             // tickets that came while others may have been
	serves  map[uint64]entry.Key        // the slot that has claimed for a ticket
	ended   map[entry.Hash]uint64       // sessions that have ended, and when
}

type turn struct {
	ticket uint64
	since  rules.Instant
}

func newNaive() *naive {
	return &naive{
		last: map[entry.Key]entry.Entry{}, seen: map[entry.Key]rules.Instant{}, dropped: map[uint64]bool{},
		verdict: map[uint64]rules.Verdict{}, stalled: map[entry.Hash]bool{}, turn: map[entry.Hash]turn{},
		due: map[entry.Key]rules.Instant{}, ends: map[entry.Key]rules.Instant{}, hurried: map[entry.Key]bool{},
		named: map[entry.Hash]*naiveName{}, void: map[uint64]bool{}, unsure: map[uint64]bool{},
		serves: map[uint64]entry.Key{}, ended: map[entry.Hash]uint64{},
	}
}

func valid(e entry.Entry) bool { return e.Revision != 0 && !e.Marker && e.Corrupt == nil }

func (n *naive) apply(e entry.Entry, now rules.Instant, age time.Duration) {
	delete(n.last, e.Key)
	if e.Key.Kind == entry.Ticket {
		n.derive(now) // the ticket that it is written over sets no terms any more
	}
	n.last[e.Key], n.seen[e.Key] = e, now.Add(-age)
	delete(n.due, e.Key)
	delete(n.hurried, e.Key)
	switch {
	case e.Key.Kind == entry.Slot && e.Marker && n.ticketPool(e.Ticket) == e.Key.Pool:
		n.dropped[e.Ticket] = true
	case e.Key.Kind == entry.Slot && valid(e):
		n.ends[e.Key] = now.Add(time.Duration(e.Slot.TTL) + rules.Slack - age)
		n.due[e.Key] = n.ends[e.Key]
		n.serve(e)
		n.derive(now)
		if e.Slot.Fence == 0 {
			delete(n.stalled, e.Slot.Claimer)
			n.verdict[e.Revision] = n.judge(e, now)
		}
	case e.Key.Kind == entry.Ticket && valid(e):
		delete(n.stalled, e.Wait.Session)
		n.void[e.Revision], n.unsure[e.Revision] = n.comes(e, now)
	case e.Key.Kind == entry.Session:
		delete(n.stalled, e.Key.Session)
		if valid(e) {
			n.due[e.Key] = now.Add(e.Session.Left() - age)
		}
		if e.Marker {
			n.ended[e.Key.Session] = e.Revision
			n.dropAll(e.Key.Session)
		}
	case e.Key.Kind == entry.Barrier:
		delete(n.stalled, e.Key.Session)
	}
	n.derive(now)
	n.hurry(now)
	n.turns(now)
}

// hurry has what holds no slot purged soon, and what holds one after all only
// when it ends.
func (n *naive) hurry(now rules.Instant) {
	for key, e := range n.last {
		if stale := !n.lives(e); key.Kind != entry.Slot || !valid(e) || stale == n.hurried[key] {
			continue
		} else if n.hurried[key] = stale; stale {
			n.due[key] = min(n.ends[key], now.Add(time.Second))
		} else {
			n.due[key] = n.ends[key]
		}
	}
}

func (n *naive) ticketPool(revision uint64) entry.Hash {
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Revision == revision && revision != 0 {
			return e.Key.Pool
		}
	}
	return entry.Hash{}
}

func (n *naive) dropAll(session entry.Hash) {
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Wait.Session == session {
			n.dropped[e.Revision] = true
		}
	}
}

func (n *naive) config(pool entry.Hash) entry.ConfigValue {
	if p := n.named[pool]; p != nil && p.inUse {
		return entry.ConfigValue{Count: p.naming.Limit, Incarnation: p.naming.Terms()}
	}
	if e := n.last[configKey(pool)]; valid(e) && !e.Config.Deleted {
		return e.Config
	}
	return entry.ConfigValue{}
}

func (n *naive) registered(pool entry.Hash) bool { return n.config(pool).Incarnation != 0 }

// slots are a pool's slots with a value, readable or not, by position.
func (n *naive) slots(pool entry.Hash) []entry.Entry {
	var found []entry.Entry
	for _, e := range n.last {
		if e.Key.Kind == entry.Slot && e.Key.Pool == pool && !e.Marker {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(x, y entry.Entry) int { return cmp.Compare(x.Key.N, y.Key.N) })
	return found
}

func (n *naive) lives(e entry.Entry) bool {
	return e.Key.Kind == entry.Slot && valid(e) && n.owned(e) &&
		(e.Slot.Name != "" || n.registered(e.Key.Pool) && e.Slot.Incarnation == n.config(e.Key.Pool).Incarnation)
}

func (n *naive) live(pool entry.Hash) []entry.Entry {
	return slices.DeleteFunc(n.slots(pool), func(e entry.Entry) bool { return !n.lives(e) })
}

// standing are the tickets in a pool's line, by place.
func (n *naive) standing(pool entry.Hash) []entry.Entry {
	var found []entry.Entry
	for _, e := range n.last {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == pool && n.stands(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(x, y entry.Entry) int { return cmp.Compare(x.Revision, y.Revision) })
	return found
}

func (n *naive) stands(e entry.Entry) bool {
	return n.asks(e) && !n.served(e) && n.registered(e.Key.Pool) && e.Wait.Incarnation == n.config(e.Key.Pool).Incarnation
}

// waiting are those in the line that are not passed over.
func (n *naive) waiting(pool entry.Hash) []entry.Entry {
	return slices.DeleteFunc(n.standing(pool), func(e entry.Entry) bool { return n.stalled[e.Wait.Session] })
}

func place(e entry.Entry) uint64 {
	if e.Slot.Ticket != 0 {
		return e.Slot.Ticket
	}
	return e.Revision
}

// judge looks at the whole world at the revision of a claim.
func (n *naive) judge(e entry.Entry, now rules.Instant) rules.Verdict {
	pool, count := e.Key.Pool, n.config(e.Key.Pool).Count
	if e.Slot.Name != "" {
		count = e.Slot.Limit
	}
	room := count - len(n.live(pool))
	ahead := 0
	for _, t := range n.waiting(pool) {
		if t.Revision < place(e) {
			ahead++
		}
	}
	if !n.lives(e) || n.elsewhere(e) || n.disagrees(e, now) || e.Key.N >= count || room < 0 || ahead > room {
		return rules.Void
	}
	for i := range e.Key.N {
		if lower := n.last[slotKey(pool, i)]; !n.lives(lower) || n.inDoubt(lower, now) {
			return rules.Void
		}
	}
	return rules.Good
}

// verdictOf is what was said of the claim that a slot stands on.
func (n *naive) verdictOf(e entry.Entry) rules.Verdict {
	if e.Marker {
		return rules.Void
	}
	if v, claimed := n.verdict[e.Revision]; claimed {
		return v
	}
	return rules.Good // renewed, or corrupt
}

func (n *naive) inDoubt(e entry.Entry, now rules.Instant) bool {
	return n.lives(e) && n.verdictOf(e) != rules.Good && now-n.seen[e.Key] < rules.Instant(time.Second)
}

// able are the tickets for which there is a permit; one that is passed over
// uses up none.
func (n *naive) able(pool entry.Hash) []entry.Entry {
	free := n.config(pool).Count - len(n.live(pool))
	if n.disputed(pool) {
		free = 0
	}
	var found []entry.Entry
	for _, t := range n.standing(pool) {
		if free <= 0 {
			break
		}
		found = append(found, t)
		if !n.stalled[t.Wait.Session] {
			free--
		}
	}
	return found
}

// turns notes since when it has been whose turn.
func (n *naive) turns(now rules.Instant) {
	pools := map[entry.Hash]bool{}
	for key := range n.last {
		pools[key.Pool] = true
	}
	for pool := range pools {
		var next uint64
		for _, t := range n.able(pool) {
			if next == 0 && !n.stalled[t.Wait.Session] {
				next = t.Revision
			}
		}
		if next != n.turn[pool].ticket {
			n.turn[pool] = turn{next, now}
		}
	}
}

func (n *naive) passOver(now rules.Instant) {
	for _, turn := range n.turn {
		if turn.ticket != 0 && now-turn.since >= rules.Instant(rules.StallTime) {
			for _, e := range n.last {
				if e.Key.Kind == entry.Ticket && e.Revision == turn.ticket && !e.Wait.Enqueued() {
					n.stalled[e.Wait.Session] = true
				}
			}
		}
	}
	n.turns(now)
}

// choose is the lowest free position, if a permit is free and nobody waits
// before; what the peer has in flight counts as done.
func (n *naive) choose(pool entry.Hash, ticket uint64, own *rules.InFlight, count int, now rules.Instant) (position int, ok bool) {
	busy := map[int]bool{}
	for _, e := range n.live(pool) {
		busy[e.Key.N] = true
	}
	served := map[uint64]bool{}
	for i, t := range own.Claims {
		busy[i], served[t] = true, true
	}
	if len(busy) >= count || n.disputed(pool) || (ticket == 0 && own.Joining > 0) {
		return 0, false
	}
	if c := n.config(pool); n.named[pool] != nil && n.hindered(pool, c.Incarnation, ticket-1, 0, now) {
		return 0, false
	}
	for _, t := range n.waiting(pool) {
		if (ticket == 0 || t.Revision < ticket) && !served[t.Revision] {
			return 0, false
		}
	}
	for busy[position] {
		position++
	}
	return position, position < count
}
