package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	presenceIdle    = 9 * time.Second
	presenceRefresh = presenceIdle / 3
)

// presence is this peer's own session: its tickets stand as long as it is
// refreshed. It owns no lease, so that a lease outlives the peer that granted
// it.
type presence struct {
	id       entry.Hash
	revision uint64           // in the view; 0 while it does not stand there
	seen     Instant          // when the view last showed it
	sent     Instant          // when its last write was begun
	wrote    [8]presenceWrite // those before, as a ring
	next     int
	writing  bool
	again    bool // it is to be written once more
	leaving  bool
	timer    timer
}

// presenceWrite is a refresh whose revision is known.
type presenceWrite struct {
	revision uint64
	sent     Instant
}

// note remembers at which revision the last write stands.
func (s *presence) note(revision uint64) {
	s.wrote[s.next%len(s.wrote)] = presenceWrite{revision, s.sent}
	s.next++
}

// sentAt is when the write at a revision was begun, if that is known.
func (s *presence) sentAt(revision uint64) (at Instant, ok bool) {
	newest := uint64(0)
	for _, w := range s.wrote {
		if w.revision == revision {
			return w.sent, true
		}
		newest = max(newest, w.revision)
	}
	return s.sent, s.writing && revision > newest
}

func (s *presence) key() entry.Key { return rules.SessionKey(s.id) }

// refreshPresence writes the presence, a new one if there is none. It is refreshed
// by compare-and-swap and never re-created: when it is gone, another one takes its
// place.
func (p *Peer) refreshPresence() {
	if p.closing || !p.watch.started {
		return
	}
	if p.self.writing {
		p.self.again = true
		return
	}
	if p.self.id.IsZero() {
		p.self.id = p.randomHash()
	}
	id := p.self.id
	if revision, taken := p.world.Stands(p.self.key()); taken && p.world.Expiring(p.self.key(), p.now) || !taken && revision != 0 {
		p.forgetPresence()
		return
	}
	revision, _ := p.world.Stands(p.self.key())
	p.self.writing, p.self.again, p.self.sent = true, false, p.now
	value := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(presenceIdle)}
	p.send(p.value(p.self.key(), value, revision, presenceIdle), func(a Ack) {
		if p.self.id == id {
			p.presenceWritten(a)
		}
	})
}

func (p *Peer) presenceWritten(a Ack) {
	p.self.writing = false
	switch a.Outcome {
	case Written:
		p.self.note(a.Revision)
		if p.self.again {
			p.refreshPresence()
			return
		}
		p.presenceIn(presenceRefresh)
	case Conflict: // by an earlier copy of the write, perhaps: the view will tell
		p.self.note(a.Revision)
		p.self.again = true
		id := p.self.id
		p.whenReached(a.Revision, func() {
			if p.self.id != id {
				return
			}
			if p.self.revision == 0 {
				p.forgetPresence()
			}
			p.presenceIn(notNowPause)
		})
		if p.self.revision >= a.Revision { // which it has told already
			p.presenceIn(notNowPause)
		} else {
			p.presenceIn(presenceRefresh)
		}
	default:
		p.presenceIn(notNowPause)
	}
}

// presenceIn has the presence refreshed after a while.
func (p *Peer) presenceIn(d time.Duration) {
	p.self.timer.fire = func() {
		if p.watch.mode == live && p.now.Sub(p.self.seen) > unseenLimit {
			p.replaceWatch(true)
		}
		p.refreshPresence()
	}
	p.timers.start(&p.self.timer, p.now.Add(d))
}

// presenceSeen keeps the presence's revision up to date with the view, and notices
// that another peer has taken this one for dead.
func (p *Peer) presenceSeen(e *entry.Entry) {
	if e.Key != p.self.key() || p.self.id.IsZero() {
		return
	}
	if !e.Marker {
		if sent, ok := p.self.sentAt(e.Revision); ok {
			p.world.Calibrate(sent, e.Time)
		}
		if p.self.revision == 0 { // there may be borrows that wait to join
			for _, ps := range p.allPools() {
				p.mark(ps)
			}
		}
		p.self.revision, p.self.seen, p.watch.check.presence = e.Revision, p.now, e.Revision
		if p.self.again && p.watch.mode != live && e.Revision <= p.watch.began {
			p.refreshPresence() // what waits for this one was written before the watch began
		}
		return
	}
	p.self.leaving = false
	if p.closing {
		return
	}
	p.log(Warn, "another peer took this one for dead; its waiters get new tickets", "")
	p.forgetPresence()
	p.refreshPresence()
}

// forgetPresence makes way for another presence. The borrows whose tickets go with
// the old one come again, in their order.
func (p *Peer) forgetPresence() {
	old := p.self.id
	p.self = presence{seen: p.self.seen, timer: p.self.timer}
	var lost []*borrow
	for _, ps := range p.allPools() {
		for _, b := range ps.tickets {
			if b.phase != done && b.ticket.server == old {
				lost = append(lost, b)
			}
		}
	}
	slices.SortFunc(lost, func(x, y *borrow) int {
		return cmp.Or(cmp.Compare(x.ticket.place-1, y.ticket.place-1), cmp.Compare(x.call.id, y.call.id))
	})
	for _, b := range lost {
		p.loseTicket(b)
	}
	for _, ps := range p.allPools() {
		ps.nextName, ps.freeNames = 0, nil
	}
	if p.watch.mode == live {
		p.presenceIn(0)
	}
}

// leave purges the presence when the peer closes; its tickets are purged by the
// end of their calls.
func (p *Peer) leave() {
	p.timers.stop(&p.self.timer)
	if revision, taken := p.world.Stands(p.self.key()); taken {
		p.self.leaving = true
		p.release(p.self.key(), revision, func(Ack) { p.self.leaving = false })
	}
}

// allPools are the pools for which something is pending, in an order that is a
// function of what was done.
func (p *Peer) allPools() []*poolState {
	list := make([]*poolState, 0, len(p.pools))
	for _, ps := range p.pools {
		list = append(list, ps)
	}
	slices.SortFunc(list, func(x, y *poolState) int { return slices.Compare(x.id[:], y.id[:]) })
	return list
}
