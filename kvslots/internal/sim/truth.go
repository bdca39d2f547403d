package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// truth is what stands in the stream, seen without lag and without a gap. It
// judges nothing: it has the configuration, the taken slots and the tickets of
// each pool as they are written.
type truth struct {
	s        *Simulation
	stream   *stream.Stream
	eye      *stream.Consumer
	last     uint64 // the last sequence seen
	pools    map[entry.Hash]*poolTruth
	sessions map[entry.Hash]*entry.Entry
	claims   map[uint64]claim // by revision, of slots' first writes
}

// claim is the moment at which a slot was taken.
type claim struct {
	at       Instant
	pool     *poolTruth
	position int
	lease    entry.Hash
	ticket   uint64      // that it names; 0 for none
	stood    bool        // that ticket stood in the line, if it names one
	count    int         // slots in force
	below    int         // free positions below
	ahead    int         // tickets that stood before it in the line, its own not counted
	healthy  int         // of these, written when all was calm, which it has been since
	first    ticketTruth // one of the latter
}

// poolTruth is one pool.
type poolTruth struct {
	id      entry.Hash
	config  *entry.Entry // its last one; a Marker if there is none
	slots   map[int]*entry.Entry
	tickets map[entry.Key]*ticketTruth
	leases  map[entry.Hash]int // how many slots and tickets are of a lease
	calls   []*call            // of this pool that are under way
	changed Instant
	left    Instant // when a call of unknown outcome last ended: its claim may come yet

	freeSince Instant // since when a slot has been free; 0: none is
}

// ticketTruth is a place in a pool's line.
type ticketTruth struct {
	*entry.Entry
	place  uint64
	at     Instant // when it was first written
	again  bool    // it was written more than once
	served bool    // a slot's purge said so: it stands in no line any more

	inForce bool // its generation was, with slots, while it stood
}

func newTruth(s *Simulation, from *stream.Stream) *truth {
	t := &truth{s: s, stream: from, claims: map[uint64]claim{}}
	t.reset()
	return t
}

func (t *truth) reset() {
	old := t.pools
	t.pools = map[entry.Hash]*poolTruth{}
	for id, p := range old {
		t.pool(id).calls = p.calls
	}
	t.sessions = map[entry.Hash]*entry.Entry{}
	t.eye = t.stream.Consumer(0)
}

func (t *truth) pool(id entry.Hash) *poolTruth {
	p := t.pools[id]
	if p == nil {
		p = &poolTruth{
			id: id, config: &entry.Entry{Marker: true}, slots: map[int]*entry.Entry{},
			tickets: map[entry.Key]*ticketTruth{}, leases: map[entry.Hash]int{}, changed: t.s.now,
		}
		t.pools[id] = p
	}
	return p
}

// catchUp reads what is new, and reports whether anything is.
func (t *truth) catchUp() bool {
	if t.eye.Lost() {
		if !t.stream.Exists() {
			return false
		}
		t.begin()
	}
	found := false
	for {
		m, ok := t.eye.Next()
		if !ok {
			return found
		}
		found = true
		e := t.s.server.entry(&m)
		t.last = e.Revision
		t.apply(e)
	}
}

// begin reads the stream from its start: it may have gone back.
func (t *truth) begin() {
	t.reset()
	clear(t.s.server.entries)
	last := t.stream.Info().Last
	for t.last = 0; ; {
		m, ok := t.eye.Next()
		if !ok {
			break
		}
		t.load(t.s.server.entry(&m))
	}
	for revision := range t.claims {
		if revision > last {
			delete(t.claims, revision)
		}
	}
	t.last = last
	for _, p := range t.pools {
		p.note(t.s.now)
		p.observe()
	}
	t.s.check.reread()
}

// load takes an entry as it stands, without a look at what it changes.
func (t *truth) load(e *entry.Entry) {
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

// apply takes one entry, and tells the checker what it ends.
func (t *truth) apply(e *entry.Entry) {
	if e.Corrupt != nil {
		t.s.fail("values", "%s has a corrupt value: %v", e.Key, e.Corrupt)
		return
	}
	if e.Key.Kind == entry.Session {
		if t.sessions[e.Key.Session] = e; e.Marker {
			delete(t.sessions, e.Key.Session)
			t.s.check.sessionEnded(e)
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
		t.s.check.configured(p, before, e)
	case entry.Slot:
		t.slot(p, e)
	case entry.Ticket:
		if e.Marker {
			t.s.check.ticketEnded(p.tickets[e.Key])
			p.dropTicket(e.Key)
		} else {
			p.setTicket(e, t.s.now)
		}
	}
	p.changed = t.s.now
	p.note(t.s.now)
	p.observe()
}

// observe lets each call under way take down how the pool is now.
func (p *poolTruth) observe() {
	pending := p.pending()
	for _, c := range p.calls {
		c.window.observe(p, c, pending)
	}
}

// pending is the number of calls that may take a slot and have neither that nor a
// ticket: their writes may be under way.
func (p *poolTruth) pending() (n int) {
	for _, c := range p.calls {
		if p.pends(c) {
			n++
		}
	}
	return n
}

func (p *poolTruth) pends(c *call) bool {
	return c.target.takes && (c.target.lease.IsZero() || p.leases[c.target.lease] == 0)
}

func (t *truth) slot(p *poolTruth, e *entry.Entry) {
	before := p.slots[e.Key.N]
	if e.Marker {
		p.dropSlot(e.Key.N)
		p.serve(e.Ticket)
	} else {
		if e.Slot.Fence == 0 {
			t.claims[e.Revision] = p.claim(t.s, e)
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
	p.leases[e.Slot.Lease]++
}

func (p *poolTruth) dropSlot(position int) {
	if e := p.slots[position]; e != nil {
		p.unlist(e.Slot.Lease)
		delete(p.slots, position)
	}
}

func (p *poolTruth) setTicket(e *entry.Entry, now Instant) {
	t := &ticketTruth{Entry: e, place: e.Wait.Place, at: now}
	if t.place == 0 {
		t.place = e.Revision
	}
	if before := p.tickets[e.Key]; before != nil && before.Wait.Lease == e.Wait.Lease {
		t.again, t.served = true, before.served
		t.at, t.inForce = before.at, before.inForce
	}
	p.dropTicket(e.Key)
	p.tickets[e.Key] = t
	p.leases[e.Wait.Lease]++
}

func (p *poolTruth) dropTicket(key entry.Key) {
	if t := p.tickets[key]; t != nil {
		p.unlist(t.Wait.Lease)
		delete(p.tickets, key)
	}
}

// unlist notes that a lease has a slot or a ticket less.
func (p *poolTruth) unlist(lease entry.Hash) {
	if p.leases[lease]--; p.leases[lease] == 0 {
		delete(p.leases, lease)
	}
}

// serve drops a ticket from the line for good: the purge of the slot that it was
// served by names it.
func (p *poolTruth) serve(place uint64) {
	for _, t := range p.tickets {
		if place != 0 && t.place == place {
			t.served = true
		}
	}
}

// claim describes the pool at the moment at which a slot is taken.
func (p *poolTruth) claim(s *Simulation, e *entry.Entry) claim {
	c := claim{at: s.now, pool: p, position: e.Key.N, lease: e.Slot.Lease, ticket: e.Slot.Ticket, count: p.count(), stood: e.Slot.Ticket == 0}
	for i := range e.Key.N {
		if _, taken := p.slots[i]; !taken {
			c.below++
		}
	}
	place := e.Slot.Ticket
	if place == 0 {
		place = e.Revision
	}
	for _, t := range p.tickets {
		c.stood = c.stood || t.place == place && p.stands(t)
		if t.place < place && p.stands(t) && t.Wait.Lease != e.Slot.Lease {
			c.ahead++
			if s.calm.by(t.at) && (s.check.keeps(t) || !t.again && s.check.waiting(p, t.Wait.Lease)) && !s.check.mayBePassed(t) {
				if c.healthy++; c.healthy == 1 || t.place < c.first.place {
					c.first = *t
				}
			}
		}
	}
	return c
}

// stands reports whether a ticket stands in the line: no slot serves it.
func (p *poolTruth) stands(t *ticketTruth) bool {
	if t.served || t.Wait.Spent || t.Wait.Generation != p.config.Config.Generation {
		return false
	}
	for _, s := range p.slots {
		if s.Slot.Ticket == t.place || s.Slot.Lease == t.Wait.Lease {
			return false
		}
	}
	return true
}

// registered reports whether the pool has a configuration in force.
func (p *poolTruth) registered() bool { return !p.config.Marker && !p.config.Config.Deleted }

func (p *poolTruth) count() int {
	if !p.registered() {
		return 0
	}
	return p.config.Config.Count
}

// inForce is the number of taken slots whose generation is in force.
func (p *poolTruth) inForce() (n int) {
	for _, e := range p.slots {
		if e.Slot.Generation == p.config.Config.Generation {
			n++
		}
	}
	return n
}

// leaseAt is the slot that a lease has, the lowest if it has several; nil if it has
// none.
func (p *poolTruth) leaseAt(lease entry.Hash) (found *entry.Entry) {
	if p.leases[lease] == 0 {
		return nil
	}
	for _, e := range p.slots {
		if e.Slot.Lease == lease && (found == nil || e.Key.N < found.Key.N) {
			found = e
		}
	}
	return found
}
