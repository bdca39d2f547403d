package sim

import (
	"maps"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// truth is the true state of the stream, without the lag and gaps of a peer's view. It
// holds the entries as they were written.
type truth struct {
	s        *Simulation
	stream   *stream.Stream
	consumer *stream.Consumer
	last     uint64 // the last sequence that was read
	pools    map[entry.Hash]*poolTruth
	sessions map[entry.Hash]*entry.Entry
	claims   map[claimKey]*claim
	totals   totals // of the pools

	events     []peer.Event         // what the entries tell, since the stream last went back
	renewals   map[claimKey]Instant // when the slot was last written again while it was lent
	presenceAt Instant              // when a peer last wrote its presence; 0: never
}

// claimKey is a claim's slot and its fence.
type claimKey struct {
	slot  entry.Key
	fence uint64
}

// claimOf returns the claim of a position's lease, and whether the stream has it.
func (t *truth) claimOf(pool entry.Hash, position int, fence uint64) (*claim, bool) {
	c, ok := t.claims[claimKey{rules.SlotKey(pool, position), fence}]
	return c, ok
}

// claim describes the pool at the moment when a slot was taken.
type claim struct {
	at               Instant
	revision         uint64
	pool             *poolTruth
	position         int
	lease            entry.Hash
	ticket           uint64      // the ticket that it serves; 0 for none
	ticketStood      bool        // the ticket that it serves stood in the line
	count            int         // the pool's count
	idleOut          int         // positions out of service without a slot
	isOut            bool        // its own position is out of service
	void             bool        // whatever tickets are passed over, the claim is not good
	doubtful         bool        // no peer that follows the stream would grant it, whatever tickets it passes over, and none has
	freeBelow        int         // free positions below its own
	ticketsAhead     int         // living tickets that stood before its own in the line
	undisturbed      int         // number of those that no fault has affected, so that no peer may pass them over
	firstUndisturbed ticketTruth // the first of the undisturbed tickets
}

type poolTruth struct {
	truth          *truth
	id             entry.Hash
	config         *entry.Entry // a Marker if the pool never existed
	slots          map[int]*entry.Entry
	tickets        map[entry.Key]*ticketTruth
	borrows        map[entry.Hash]int // number of slots and tickets, by borrow: see borrowOf
	calls          []*call            // calls under way
	changed        Instant
	unknownEndedAt Instant // when a call of unknown outcome last ended; its claim may still come

	counted   totals  // what it contributes to the totals
	freeSince Instant // since when a slot has been free; 0 if none is
	usedAt    Instant // when it was last used: an entry was written, except for closings
	idleFrom  Instant // usedAt at the present closing
	removedAt Instant // when a peer last unregistered it as idle
	calledAt  Instant // when a call last registered it or changed its count
}

type ticketTruth struct {
	*entry.Entry
	place     uint64
	at        Instant // when it was first written
	stoodAt   Instant // when its place was first written
	rewritten bool    // it was written more than once

	wasInForce bool // at some time its generation was in force and had slots
}

func newTruth(s *Simulation, from *stream.Stream) *truth {
	t := &truth{s: s, stream: from, claims: map[claimKey]*claim{}, renewals: map[claimKey]Instant{}}
	t.reset()
	return t
}

func (t *truth) reset() {
	old := t.pools
	t.totals = totals{}
	t.pools = map[entry.Hash]*poolTruth{}
	for id, p := range old { // what the stream does not say
		now := t.pool(id)
		now.calls, now.removedAt = p.calls, p.removedAt
	}
	t.sessions = map[entry.Hash]*entry.Entry{}
	t.consumer = t.stream.Consumer(0)
}

func (t *truth) pool(id entry.Hash) *poolTruth {
	p := t.pools[id]
	if p == nil {
		p = &poolTruth{
			truth: t, id: id, config: &entry.Entry{Marker: true}, slots: map[int]*entry.Entry{},
			tickets: map[entry.Key]*ticketTruth{}, borrows: map[entry.Hash]int{}, changed: t.s.now,
		}
		t.pools[id] = p
	}
	return p
}

// catchUp applies what is new in the stream, and reports whether anything is.
func (t *truth) catchUp() bool {
	if t.consumer.Lost() {
		if !t.stream.Exists() {
			return false
		}
		t.reload()
	}
	found := false
	for {
		m, ok := t.consumer.Next()
		if !ok {
			return found
		}
		found = true
		e := t.s.server.entry(&m)
		t.last = e.Revision
		if t.s.trace != nil {
			t.s.trace.keys[e.Key] = struct{}{}
		}
		t.apply(e)
		t.observeTotals()
	}
}

// reload reads the stream from its start, because the stream may have gone back.
func (t *truth) reload() {
	before, had := t.revisions(), t.last
	t.reset()
	t.s.check.marks.reset()
	clear(t.s.server.entries)
	last := t.stream.Info().Last
	for t.last = 0; ; {
		m, ok := t.consumer.Next()
		if !ok {
			break
		}
		t.load(t.s.server.entry(&m))
	}
	for key, c := range t.claims {
		if c.revision > last {
			delete(t.claims, key)
		}
	}
	t.last = last
	if last < had || !maps.Equal(before, t.revisions()) {
		t.streamChanged()
	}
	for _, p := range t.pools {
		p.updateFree(t.s.now)
		p.observe()
		t.recount(p)
	}
	t.s.check.losses.onReread()
}

// revisions returns the entries that have a meaning, by key.
func (t *truth) revisions() map[entry.Key]uint64 {
	revisions := map[entry.Key]uint64{}
	for _, p := range t.pools {
		if p.registered() {
			revisions[p.config.Key] = p.config.Revision
		}
		for _, e := range p.slots {
			revisions[e.Key] = e.Revision
		}
		for _, w := range p.tickets {
			revisions[w.Key] = w.Revision
		}
	}
	for _, e := range t.sessions {
		revisions[e.Key] = e.Revision
	}
	return revisions
}

// load takes an entry as it is, without a check of what it changes.
func (t *truth) load(e *entry.Entry) {
	t.s.check.marks.loaded(e)
	switch e.Key.Kind {
	case entry.Config:
		t.pool(e.Key.Pool).config = e
	case entry.Slot:
		if !e.Marker {
			t.pool(e.Key.Pool).setSlot(e)
		}
	case entry.Ticket:
		if !e.Marker {
			t.pool(e.Key.Pool).setTicket(e, t.s.now)
		}
	case entry.Session:
		if !e.Marker {
			t.sessions[e.Key.Session] = e
		}
	}
}

// apply takes an entry, adds its events, and has the checker check what it ends.
func (t *truth) apply(e *entry.Entry) {
	was := t.sessions[e.Key.Session]
	before := t.sceneOf(e)
	t.change(e)
	t.tell(e, was, before)
}

func (t *truth) change(e *entry.Entry) {
	if e.Corrupt != nil {
		t.s.fail("values", "%s has a corrupt value: %v", e.Key, e.Corrupt)
		return
	}
	t.s.check.marks.applied(e)
	t.s.check.losses.applied(e)
	if e.Key.Kind == entry.Session {
		_, before := t.sessions[e.Key.Session]
		if t.sessions[e.Key.Session] = e; e.Marker {
			delete(t.sessions, e.Key.Session)
			t.s.check.sessionEnded(e)
		} else if e.Session.Kind == entry.SessionPeer {
			t.presenceAt = t.s.now
		}
		if before == e.Marker {
			t.s.check.observeReadings(nil)
			for _, p := range t.pools {
				p.observe()
			}
		}
		return
	}
	if e.Key.Pool.IsZero() {
		return
	}
	p := t.pool(e.Key.Pool)
	switch e.Key.Kind {
	case entry.Config:
		before := p.config
		p.config = e
		if e.Config.Closing {
			p.idleFrom = p.usedAt
		}
		t.s.check.configured(p, before, e)
		closes := e.Config.Closing && !before.Config.Closing
		if !closes && !e.Marker { // a registration, or a peer that has found a use
			p.calledAt = t.s.now
		}
	case entry.Slot:
		t.slot(p, e)
	case entry.Ticket:
		t.s.check.checkPlace(p, e)
		if e.Marker {
			t.s.check.lines.ticketEnded(p.tickets[e.Key])
			p.dropTicket(e.Key)
		} else {
			p.setTicket(e, t.s.now)
		}
	}
	p.changed = t.s.now
	if e.Key.Kind != entry.Config || !e.Config.Closing {
		p.usedAt = t.s.now
	}
	p.updateFree(t.s.now)
	p.observe()
	t.recount(p)
	t.s.check.observeReadings(p)
}

// observe adds the pool's present state to the windows of its calls.
func (p *poolTruth) observe() {
	pending := p.pending()
	var st *poolState
	for _, c := range p.calls {
		c.window.observe(p, c, pending)
		if needsStates(c.request) {
			if st == nil {
				st = p.truth.state(p)
			}
			c.window.states = append(c.window.states, st)
		}
	}
}

// pending returns the number of calls that may take a slot and have neither slot nor
// ticket yet. Their writes may be under way.
func (p *poolTruth) pending() (n int) {
	for _, c := range p.calls {
		if p.pends(c) {
			n++
		}
	}
	return n
}

func (p *poolTruth) pends(c *call) bool {
	return c.target.takes && (c.target.lease.IsZero() || p.borrows[borrowOf(c.target.lease)] == 0)
}

func (t *truth) slot(p *poolTruth, e *entry.Entry) {
	before := p.slots[e.Key.N]
	if e.Marker {
		p.dropSlot(e.Key.N)
	} else {
		t.noteRaces(p, e)
		if e.Slot.Fence == 0 {
			t.claims[claimKey{e.Key, e.Fence()}] = p.claim(t.s, e)
		} else if c := t.claims[claimKey{e.Key, e.Slot.Fence}]; c != nil {
			c.doubtful = false
		}
		if e.Slot.Fence != 0 && t.holds(p, e) {
			t.renewals[claimKey{e.Key, e.Slot.Fence}] = t.s.now
		}
		if key := t.s.check.keys[e.Slot.Request]; key != nil {
			key.until = t.s.now.Add(e.Slot.TTL.Duration())
		}
		p.setSlot(e)
	}
	if before != nil && (e.Marker || e.Slot.Lease != before.Slot.Lease) {
		t.s.check.slotEnded(p, before, e)
	}
}

func (p *poolTruth) setSlot(e *entry.Entry) {
	p.dropSlot(e.Key.N)
	p.slots[e.Key.N] = e
	p.borrows[borrowOf(e.Slot.Lease)]++
}

func (p *poolTruth) dropSlot(position int) {
	if e := p.slots[position]; e != nil {
		p.dropLease(e.Slot.Lease)
		delete(p.slots, position)
	}
}

func (p *poolTruth) setTicket(e *entry.Entry, now Instant) {
	t := &ticketTruth{Entry: e, place: e.Ticket.Place, at: now, stoodAt: now}
	if t.place == 0 {
		t.place = e.Revision
	}
	if before := p.tickets[e.Key]; before != nil && before.place == t.place {
		t.stoodAt = before.stoodAt
	}
	if before := p.tickets[e.Key]; before != nil && before.Ticket.Lease == e.Ticket.Lease {
		t.rewritten = true
		t.at, t.wasInForce = before.at, before.wasInForce
	}
	p.dropTicket(e.Key)
	p.tickets[e.Key] = t
	p.borrows[borrowOf(e.Ticket.Lease)]++
}

func (p *poolTruth) dropTicket(key entry.Key) {
	if t := p.tickets[key]; t != nil {
		p.dropLease(t.Ticket.Lease)
		delete(p.tickets, key)
	}
}

// dropLease records that a slot or a ticket of the lease is gone.
func (p *poolTruth) dropLease(lease entry.Hash) {
	b := borrowOf(lease)
	if p.borrows[b]--; p.borrows[b] == 0 {
		delete(p.borrows, b)
	}
}

// claim describes the pool at the moment when e takes a slot.
func (p *poolTruth) claim(s *Simulation, e *entry.Entry) *claim {
	c := &claim{idleOut: p.idleOut(), isOut: p.isOut(e.Key.N), at: s.now, revision: e.Revision, pool: p, position: e.Key.N, lease: e.Slot.Lease, ticket: e.Slot.Ticket, count: p.count(), ticketStood: e.Slot.Ticket == 0}
	for i := range e.Key.N {
		if _, taken := p.slots[i]; !taken && !p.isOut(i) {
			c.freeBelow++
		}
	}
	place := e.Slot.Ticket
	if place == 0 {
		place = e.Revision
	}
	for _, t := range p.tickets {
		c.ticketStood = c.ticketStood || t.place == place && p.stands(t)
		if t.place < place && p.stands(t) && s.server.truth.lives(t) && !s.server.truth.isAbsent(t) {
			c.ticketsAhead++
			if s.faultState.settledAt(t.at) && (s.check.lines.isEnqueuedAlive(t) || !t.rewritten && s.check.isWaiting(p, t.Ticket.Lease)) && !s.check.lines.mayBePassedOver(t) {
				if c.undisturbed++; c.undisturbed == 1 || t.place < c.firstUndisturbed.place {
					c.firstUndisturbed = *t
				}
			}
		}
	}
	live := 1
	for i, o := range p.slots {
		if i != e.Key.N && s.server.truth.holds(p, o) {
			live++
		}
	}
	c.void = !s.server.truth.holds(p, e) || !c.ticketStood || c.position >= c.count || c.isOut || live+c.idleOut > c.count || c.freeBelow > c.ticketsAhead
	c.doubtful = c.void || p.repeats(e) || live+c.idleOut+c.undisturbed > c.count
	return c
}

// repeats reports whether another slot has the request key of a claim.
func (p *poolTruth) repeats(e *entry.Entry) bool {
	for i, o := range p.slots {
		if i != e.Key.N && !e.Slot.Request.IsZero() && o.Slot.Request == e.Slot.Request && p.truth.holds(p, o) {
			return true
		}
	}
	return false
}

// stands reports whether the ticket is waiting, and not being served by a slot. It leaves the
// line by the purge of its own key only. Only a slot that names the ticket serves it: another slot of the same borrow has an earlier claim, which
// was withdrawn, and is back because the stream has lost its purge.
func (p *poolTruth) stands(t *ticketTruth) bool {
	if t.Ticket.Spent || t.Ticket.Generation != p.config.Config.Generation {
		return false
	}
	for _, s := range p.slots {
		if s.Slot.Ticket == t.place {
			return false
		}
	}
	return true
}

// lives reports whether the ticket's author is alive, and the peer that claims for it. Any
// peer claims for an enqueued ticket.
func (t *truth) lives(w *ticketTruth) bool {
	holder := w.holder()
	return (holder.IsZero() || t.sessions[holder] != nil) && (w.Ticket.Enqueued() || w.Ticket.Grace > 0 || t.sessions[w.server()] != nil)
}

// holder returns the client session that the ticket ends with; zero: none.
func (w *ticketTruth) holder() entry.Hash {
	if w.Ticket.Enqueued() {
		return w.Key.Session
	}
	return w.Ticket.Session
}

// isAbsent reports whether the ticket is kept for a repeat, and no caller waits.
func (t *truth) isAbsent(w *ticketTruth) bool {
	return w.Ticket.Grace > 0 && (w.Ticket.Away || t.sessions[w.server()] == nil)
}

func (p *poolTruth) registered() bool { return !p.config.Marker }

func (p *poolTruth) size() int {
	if !p.registered() {
		return 0
	}
	return p.config.Config.Count
}

// count returns the number of slots that may be taken, with those of positions out of service:
// none while the pool is being closed, or is out of service.
func (p *poolTruth) count() int {
	if p.config.Config.Closing || p.isOut(entry.WholePool) {
		return 0
	}
	return p.size()
}

func (p *poolTruth) isOut(position int) bool {
	_, out := p.config.Config.OutAt(position)
	return out
}

// idleOut returns the number of positions that are out of service and have no slot.
func (p *poolTruth) idleOut() (n int) {
	for i := range p.size() {
		if _, taken := p.slots[i]; !taken && (p.isOut(i) || p.isOut(entry.WholePool)) {
			n++
		}
	}
	return n
}

// free returns the number of slots that have no entry and are not out of service.
func (p *poolTruth) free() int { return p.size() - len(p.slots) - p.idleOut() }

// inForce returns the number of taken slots of the generation in force.
func (p *poolTruth) inForce() (n int) {
	for _, e := range p.slots {
		if e.Slot.Generation == p.config.Config.Generation {
			n++
		}
	}
	return n
}

// leaseAt returns the slot of a lease, the lowest if it has several, or nil.
func (p *poolTruth) leaseAt(lease entry.Hash) (found *entry.Entry) {
	if p.borrows[borrowOf(lease)] == 0 {
		return nil
	}
	for _, e := range p.slots {
		if e.Slot.Lease == lease && (found == nil || e.Key.N < found.Key.N) {
			found = e
		}
	}
	return found
}
