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
	p        *Peer
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

// refresh writes the presence, a new one if there is none. It is refreshed
// by compare-and-swap and never re-created: when it is gone, another one takes its
// place.
func (s *presence) refresh() {
	if s.p.closing || !s.p.watch.started {
		return
	}
	if s.writing {
		s.again = true
		return
	}
	if s.id.IsZero() {
		s.id = s.p.randomHash()
	}
	id := s.id
	if revision, taken := s.p.world.Stands(s.key()); taken && s.p.world.Expiring(s.key(), s.p.now) || !taken && revision != 0 {
		s.p.self.forget()
		return
	}
	revision, _ := s.p.world.Stands(s.key())
	s.writing, s.again, s.sent = true, false, s.p.now
	value := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(presenceIdle)}
	s.p.send(s.p.value(s.key(), value, revision, presenceIdle), func(a Ack) {
		if s.id == id {
			s.p.self.written(a)
		}
	})
}

func (s *presence) written(a Ack) {
	s.writing = false
	switch a.Outcome {
	case Written:
		s.note(a.Revision)
		if s.again {
			s.refresh()
			return
		}
		s.p.self.in(presenceRefresh)
	case Conflict: // by an earlier copy of the write, perhaps: the view will tell
		s.note(a.Revision)
		if s.p.watch.mode != live && s.revision == a.Revision { // which was delivered meanwhile
			s.p.self.in(notNowPause)
			return
		}
		s.again = true
		id := s.id
		s.p.whenReached(a.Revision, func() {
			if s.id != id {
				return
			}
			if s.revision == 0 {
				s.p.self.forget()
			}
			s.p.self.in(notNowPause)
		})
		s.p.self.in(presenceRefresh)
	default:
		s.p.self.in(notNowPause)
	}
}

// in has the presence refreshed after a while.
func (s *presence) in(d time.Duration) {
	s.timer.fire = func() {
		if s.p.watch.mode == live && s.p.now.Sub(s.seen) > unseenLimit {
			s.p.watch.replace(true)
		}
		s.refresh()
	}
	s.p.timers.start(&s.timer, s.p.now.Add(d))
}

// applied keeps the presence's revision up to date with the view, and notices
// that another peer has taken this one for dead.
func (s *presence) applied(e *entry.Entry) {
	if e.Key != s.key() || s.id.IsZero() {
		return
	}
	if !e.Marker {
		if sent, ok := s.sentAt(e.Revision); ok {
			s.p.world.Calibrate(sent, e.Time)
		}
		if s.revision == 0 { // there may be borrows that wait to join
			for _, ps := range s.p.allPools() {
				ps.mark()
			}
		}
		s.revision, s.seen, s.p.watch.check.presence = e.Revision, s.p.now, e.Revision
		if s.again && s.p.watch.mode != live && e.Revision <= s.p.watch.began {
			s.refresh() // what waits for this one was written before the watch began
		}
		return
	}
	s.leaving = false
	if s.p.closing {
		return
	}
	s.p.log(Warn, "another peer took this one for dead; its waiters get new tickets", "")
	s.p.self.forget()
	s.refresh()
}

// forget makes way for another presence. The borrows whose tickets go with
// the old one come again, in their order.
func (s *presence) forget() {
	old := s.id
	*s = presence{p: s.p, seen: s.seen, timer: s.timer}
	var lost []*borrow
	for _, ps := range s.p.allPools() {
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
		b.loseTicket()
	}
	for _, ps := range s.p.allPools() {
		ps.nextName, ps.freeNames = 0, nil
	}
	if s.p.watch.mode == live {
		s.in(0)
	}
}

// leave purges the presence when the peer closes; its tickets are purged by the
// end of their calls.
func (s *presence) leave() {
	s.p.timers.stop(&s.timer)
	if revision, taken := s.p.world.Stands(s.key()); taken {
		s.leaving = true
		s.p.release(s.key(), revision, func(Ack) { s.leaving = false })
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
