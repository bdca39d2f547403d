package rules_test

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// peer is one peer of the simulation: a world behind a watch that lags and
// skips, and writes that take their time. It does what the library does.
type peer struct {
	sim      *simulation
	number   int
	speed    int // how often its watch delivers
	world    *rules.World
	sent     uint64        // by the server, to the watch
	pipe     []entry.Entry // sent, and not read yet
	outbox   []func()      // writes that have not reached the leader yet
	flight   rules.InFlight
	borrows  []*simBorrow // in their order
	barriers []barrier    // that the view has to reach
	asking   bool         // one is in the outbox
	held     uint64       // the view must reach this before anything is chosen
	readings []reading

	presences int
	self      entry.Hash
	standing  bool // the presence is in the view
	names     []simName
	named     int
	enqueued  []simName // tickets of client sessions that this peer has drawn, and not seen yet
}

// simName is a ticket's name that can be used again.
type simName struct {
	key      entry.Key
	revision uint64
}

// simBorrow is somebody who wants a lease.
type simBorrow struct {
	lease       entry.Hash
	waits       bool
	incarnation uint64
	name        simName
	ticket      uint64 // in the view
	joining     bool
	acked       uint64 // the ticket, before it is seen
	above       uint64 // the name's revision before: the ticket is newer
	claiming    bool
	attempt     int
	position    int
	stood       uint64
	revision    uint64 // of the claim, in the view
	withdrawn   bool
	flying      bool
	over        bool

	naming   entry.Naming // of a named pool
	fresh    bool         // its ticket has just come to be seen, and may be void
	refusing bool         // it is refused when it is certain that there is nothing for it
	refuseBy rules.Instant
	session  entry.Hash // the client session it is for, if any
	promoted bool       // its ticket is the session's own
}

func newPeer(s *simulation, number int) *peer {
	p := &peer{sim: s, number: number, speed: 8 + s.rng.IntN(14), world: rules.New()}
	p.flight.Claims, p.flight.Purges = map[int]uint64{}, map[int]uint64{}
	p.newPresence()
	return p
}

func (p *peer) now() rules.Instant { return p.sim.stream.instant() }

func (p *peer) pool() *rules.Pool { return p.world.Pool(simPool) }

func (p *peer) slot(position int) *rules.Slot {
	if p.pool() == nil {
		return nil
	}
	return p.pool().Slot(position)
}

// later puts a write in the outbox.
func (p *peer) later(e entry.Entry, expected uint64, done func(revision uint64, ok bool)) {
	p.outbox = append(p.outbox, func() {
		revision, ok := p.sim.write(e, expected)
		if done != nil {
			done(revision, ok)
		}
	})
}

// flush lets one write reach the leader.
func (p *peer) flush() bool {
	if len(p.outbox) == 0 {
		return false
	}
	write := p.outbox[0]
	p.outbox = p.outbox[1:]
	write()
	p.advance()
	return true
}

// send lets the server send the next entry.
func (p *peer) send() bool {
	e, ok := p.sim.stream.after(p.sent)
	if p.sim.whole && ok {
		e = p.sim.stream.log[p.sent]
	}
	if ok {
		p.sent = e.Revision
		p.pipe = append(p.pipe, e)
	}
	return ok
}

// read applies one entry. A blind peer is shown something of no meaning in the
// place of everything that was skipped, so that it sees no jump.
func (p *peer) read() bool {
	if len(p.pipe) == 0 {
		return false
	}
	e := p.pipe[0]
	p.pipe = p.pipe[1:]
	skipped := int(e.Revision - p.world.Revision - 1)
	p.sim.applied++
	p.sim.skipped += skipped
	for range skipped {
		if p.sim.blind {
			p.world.Apply(entry.Entry{Revision: p.world.Revision + 1, Time: p.world.Time}, p.now(), 0)
		}
	}
	p.world.Apply(e, p.now(), 0)
	if e.Key.Kind == entry.Config {
		p.readings = append(p.readings, reading{e.Revision, p.world.Read(p.pool())})
	}
	p.presenceSeen(e)
	p.reach()
	p.advance()
	return true
}

// settle does one thing that is left to do.
func (p *peer) settle() bool {
	did := p.flush()
	did = p.send() || did
	did = p.read() || did
	p.advance()
	return did || len(p.outbox) > 0
}

// reach notes the barriers that the view has reached.
func (p *peer) reach() {
	for len(p.barriers) > 0 && p.barriers[0].sequence <= p.world.Revision {
		p.world.Reached(p.barriers[0].sent, p.now())
		p.barriers = p.barriers[1:]
	}
	p.sim.agree(p.world)
	p.sim.compare(p)
}

// wantExact asks for a barrier.
func (p *peer) wantExact() {
	if p.world.Exact() || p.asking || len(p.barriers) > 0 {
		return
	}
	p.asking = true
	sent := p.world.Revision
	p.sim.barriers++
	p.outbox = append(p.outbox, func() {
		sequence := p.sim.stream.sequence
		if p.sim.written {
			sequence, _ = p.sim.write(entry.Entry{Key: barrierKey(p.self)}, 0)
		}
		p.asking = false
		p.barriers = append(p.barriers, barrier{sent, sequence})
		p.reach()
	})
}

func (p *peer) newPresence() {
	p.presences++
	p.self, p.standing = sessionID(100*p.number+p.presences), false
	p.later(alive(p.self, 1e9), 0, nil)
}

// presenceSeen notices that the presence stands, or that somebody ended it; then
// its waiters get new tickets.
func (p *peer) presenceSeen(e entry.Entry) {
	if e.Key != sessionKey(p.self) {
		return
	}
	if p.standing = !e.Marker; p.standing {
		return
	}
	p.newPresence()
	for _, b := range p.borrows {
		if b.ticket != 0 && !b.claiming && !b.promoted {
			p.leaveLine(b)
		}
	}
}

// endPresence takes another peer for dead.
func (p *peer) endPresence(other *peer) {
	if s := p.world.Session(other.self); p.world.Exact() && s != nil && s.Present {
		p.later(marker(sessionKey(other.self)), s.Revision, nil)
	}
}

// register registers or resizes.
func (p *peer) register(count int, incarnation uint64) {
	var expected uint64
	if pool := p.pool(); pool != nil {
		expected = pool.ConfigRevision
		if pool.Registered() {
			incarnation = pool.Incarnation()
		}
	}
	p.later(config(simPool, count, incarnation), expected, nil)
}

// delete deletes the pool; what it leaves is purged when the view has seen it.
func (p *peer) delete() {
	if pool := p.pool(); pool != nil && pool.Registered() {
		p.later(deleted(simPool, pool.Incarnation()), pool.ConfigRevision, nil)
	}
}

// leases calls do for the leases in the view that somebody was given.
func (p *peer) leases(do func(s *rules.Slot)) {
	if p.pool() == nil {
		return
	}
	p.pool().Slots(func(s *rules.Slot) bool {
		if p.sim.granted[s.Fence] == s.Value.Lease && s.Live() {
			do(s)
		}
		return true
	})
}

func (p *peer) giveBack() {
	p.leases(func(s *rules.Slot) {
		if p.sim.rng.IntN(2) == 0 {
			p.purge(s.Position, s.Revision, s.Value.Ticket)
		}
	})
}

func (p *peer) giveBackAll() {
	p.leases(func(s *rules.Slot) { p.purge(s.Position, s.Revision, s.Value.Ticket) })
}

func (p *peer) renew() {
	p.leases(func(s *rules.Slot) {
		v := s.Value
		v.Fence = s.Fence
		p.later(claim(slotKey(simPool, s.Position), v), s.Revision, nil)
	})
}

// purge ends what stands at a position.
func (p *peer) purge(position int, revision, ticket uint64) {
	e := marker(slotKey(simPool, position))
	e.Ticket = ticket
	p.flight.Purges[position] = revision
	p.later(e, revision, func(_ uint64, ok bool) {
		if !ok && p.flight.Purges[position] == revision {
			delete(p.flight.Purges, position)
		}
	})
}

// borrow wants a lease; one that does not wait is refused when there is none.
func (p *peer) borrow(waits bool) {
	if len(p.borrows) < 4 {
		b := &simBorrow{lease: p.sim.lease(), waits: waits}
		if p.sim.names != nil {
			p.ask(b)
		}
		p.borrows = append(p.borrows, b)
		p.advance()
	}
}

// advance takes everybody as far as the view allows.
func (p *peer) advance() {
	p.observe()
	p.dismiss()
	p.judge()
	if p.sim.names != nil {
		p.seat() // who was claiming before
		p.refuse()
	}
	if p.world.Revision >= p.held && p.standing {
		p.promote()
		p.serveLine()
		p.serveQueue()
	}
	p.borrows = slices.DeleteFunc(p.borrows, func(b *simBorrow) bool { return b.over })
}

// observe notes which of the peer's own writes the view has reached.
func (p *peer) observe() {
	for position, revision := range p.flight.Purges {
		if s := p.slot(position); s == nil || s.Revision > revision {
			delete(p.flight.Purges, position)
		}
	}
	for _, b := range p.borrows {
		if !b.joining || p.pool() == nil {
			continue
		}
		if t := p.pool().TicketAt(b.name.key); t != nil && t.Value.Lease == b.lease && t.Revision > b.above {
			b.joining, b.ticket = false, t.Revision
			p.flight.Joining--
			if p.sim.names != nil {
				b.fresh = true
			} else if b.name.key.Session != p.self {
				p.leaveLine(b)
			}
		} else if b.acked != 0 && b.acked <= p.world.Revision { // it was purged before it was seen
			p.flight.Joining--
			p.names = append(p.names, b.name)
			b.joining = false
		}
	}
}

// dismiss sends those back to the queue whose pool is gone.
func (p *peer) dismiss() {
	if p.sim.names != nil {
		p.seat()
		return
	}
	var incarnation uint64
	if p.pool() != nil {
		incarnation = p.pool().Incarnation()
	}
	if incarnation == 0 && !p.world.Exact() {
		return
	}
	for _, b := range p.borrows {
		if b.ticket != 0 && !b.claiming && b.incarnation != incarnation {
			p.leaveLine(b)
		}
	}
}

// leaveLine drops a borrower's ticket; its name can be used again.
func (p *peer) leaveLine(b *simBorrow) {
	name := b.name
	b.fresh = false
	if b.promoted {
		p.later(marker(name.key), b.ticket, nil)
		b.ticket = 0
		return
	}
	p.later(marker(name.key), b.ticket, func(revision uint64, _ bool) {
		name.revision = revision
		p.names = append(p.names, name)
	})
	b.ticket = 0
}

// judge decides about the claims that the view has reached.
func (p *peer) judge() {
	for _, b := range p.borrows {
		s := p.slot(b.position)
		if !b.claiming || s == nil {
			continue
		}
		switch {
		case b.revision == 0 && s.Taken && s.Value.Lease == b.lease && s.Revision > b.stood:
			b.revision = s.Revision
			p.landed(b)
			if s.Verdict() == rules.Open {
				p.sim.opened++
			}
		case b.revision == 0 && s.Revision > b.stood, b.revision != 0 && s.Revision != b.revision:
			p.landed(b)
			p.requeue(b)
			continue
		case b.revision == 0:
			continue
		}
		if !b.withdrawn {
			p.decide(b, s)
		}
	}
}

func (p *peer) decide(b *simBorrow, s *rules.Slot) {
	switch s.Verdict() {
	case rules.Open:
		p.wantExact()
	case rules.Good:
		p.sim.grant(s.Fence, b.lease)
		b.over = true
		if b.ticket != 0 {
			p.leaveLine(b)
		}
	case rules.Lost:
		p.sim.lost++
		p.withdraw(b)
	case rules.Void:
		p.sim.voids++
		p.withdraw(b)
	}
}

func (p *peer) withdraw(b *simBorrow) {
	b.withdrawn = true
	p.purge(b.position, b.revision, 0)
}

// landed notes that a claim is not in flight any more.
func (p *peer) landed(b *simBorrow) {
	if b.flying {
		b.flying = false
		delete(p.flight.Claims, b.position)
	}
}

// requeue is for one whose claim came to nothing.
func (p *peer) requeue(b *simBorrow) {
	b.claiming, b.withdrawn, b.revision = false, false, 0
	b.attempt++
	if b.ticket != 0 && (p.pool() == nil || p.pool().Ticket(b.ticket) == nil) {
		p.leaveLine(b)
		b.over = b.promoted
	}
}

func (p *peer) serveLine() {
	if p.pool() == nil {
		return
	}
	for _, t := range p.pool().Able() {
		i := slices.IndexFunc(p.borrows, func(b *simBorrow) bool { return b.ticket == t.Revision && !b.claiming })
		if i < 0 {
			continue
		}
		position, ok := p.pool().Choose(t, &p.flight, p.pool().Count())
		if !ok || !p.take(p.borrows[i], position) {
			return
		}
	}
}

// serveQueue decides about those who have just come, in their order.
func (p *peer) serveQueue() {
	for _, b := range p.borrows {
		if b.ticket != 0 || b.joining || b.claiming || b.refusing || b.over {
			continue
		}
		pool, count, known := p.reckon(b)
		if b.over || b.refusing {
			continue
		}
		if !known {
			return
		}
		position, ok := pool.Choose(nil, &p.flight, count)
		switch {
		case ok:
			if !p.take(b, position) {
				return
			}
		case len(p.flight.Purges) > 0:
			return
		case b.waits:
			p.join(b)
		case p.sim.names != nil:
			p.refuseLater(b)
		default:
			b.over = true
		}
	}
}

// reckon tells how many slots a newcomer reckons with. The view may have to be
// exact before that is known.
func (p *peer) reckon(b *simBorrow) (pool *rules.Pool, count int, known bool) {
	if p.sim.names != nil {
		return p.reckonNamed(b)
	}
	if pool = p.pool(); pool == nil || !pool.Registered() {
		b.over = p.world.Exact()
		p.wantExact()
		return nil, 0, false
	}
	b.incarnation = pool.Incarnation()
	return pool, pool.Count(), true
}

// take sends a claim, unless something has to come first.
func (p *peer) take(b *simBorrow, position int) bool {
	if p.flight.PurgesBelow(position+1) || p.pool().DoubtBelow(position, p.now()) {
		return false
	}
	b.stood = 0
	if s := p.slot(position); s != nil {
		if s.Stale() {
			p.sweep(s)
			return false
		}
		b.stood = s.Revision
	}
	b.claiming, b.flying, b.position = true, true, position
	p.flight.Claims[position] = b.ticket
	attempt := b.attempt
	p.later(claim(slotKey(simPool, position), entry.SlotValue{
		Lease: b.lease, Claimer: p.self, Ticket: b.ticket, Incarnation: b.incarnation, Naming: b.naming, Session: b.session,
	}), b.stood, func(revision uint64, ok bool) {
		if !ok && b.attempt == attempt && b.flying {
			p.landed(b)
			p.held = max(p.held, revision)
			p.requeue(b)
		}
	})
	return true
}

// sweep purges what holds no slot and is in the way.
func (p *peer) sweep(s *rules.Slot) {
	if _, under := p.flight.Purges[s.Position]; under {
		return
	}
	if p.world.Exact() {
		p.purge(s.Position, s.Revision, 0)
	} else {
		p.wantExact()
	}
}

// join sends a ticket.
func (p *peer) join(b *simBorrow) {
	i := slices.IndexFunc(p.names, func(n simName) bool { return n.key.Session == p.self })
	if i >= 0 {
		b.name = p.names[i]
		p.names = slices.Delete(p.names, i, i+1)
	} else {
		b.name = simName{key: ticketKey(simPool, p.self, p.named)}
		p.named++
	}
	b.joining, b.acked, b.above = true, 0, b.name.revision
	p.flight.Joining++
	p.sendTicket(b)
}

func (p *peer) sendTicket(b *simBorrow) {
	e := ticket(b.name.key, b.lease, b.incarnation)
	e.Wait.Naming = b.naming
	p.later(e, b.name.revision, func(revision uint64, ok bool) {
		b.name.revision = revision
		switch {
		case !b.joining:
		case ok:
			b.acked = revision
		default:
			p.sendTicket(b)
		}
	})
}
