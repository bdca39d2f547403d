package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

func (w *World) applyConfig(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	before, held := p.Generation(), p.ConfigRevision
	p.ConfigRevision, p.configSet, p.configAt = e.Revision, !e.Marker, now
	p.config = e.Config // zero for a marker and for a corrupt value
	p.life.extend(e, now, age)
	if e.Marker {
		w.marks.set(p.markDue(), p.life.present.Add(expiryLate))
	} else {
		w.marks.drop(&p.mark)
	}
	if after := p.Generation(); after != before {
		if before != 0 {
			was := past{before, e.Revision, e.Revision}
			if after != 0 && e.Previous != held {
				was.surely = e.Previous // what was skipped may have ended it, or not
			}
			p.past = append(p.past, was)
			if len(p.past) > maxPast {
				p.past = p.past[1:]
			}
		}
		for _, s := range p.slots {
			if s != nil {
				p.reindex(s)
			}
		}
		for t := p.line.first; t != nil; t = t.next {
			w.garbage(t, now)
		}
	}
	w.touch(p)
}

func (p *Pool) markDue() *due {
	p.mark.of = p
	return &p.mark
}

func (w *World) applySlot(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	s := p.slotAt(e.Key.N)
	held := s.Value
	if e.Previous > s.Revision {
		p.doubtTickets(e.Previous, e.Revision, now)
	}
	if p.leases != nil && s.Taken && p.leases[held.Lease] == s {
		delete(p.leases, held.Lease)
	}
	s.Replaced, s.Author = e.Previous, e.Author
	s.Revision, s.Time, s.seen = e.Revision, e.Time, now.Add(-age)
	if e.Slot.Fence == 0 || e.Slot.Lease != held.Lease {
		s.granted = s.seen
	}
	s.Taken, s.Value, s.claim, s.Fence = !e.Marker, e.Slot, nil, e.Slot.Fence
	if s.Taken && s.Fence == 0 && e.Corrupt == nil {
		s.Fence = e.Revision
	}
	s.stray = false
	s.life.extend(e, now, age)
	w.own(s, e.Slot.Session)
	if e.Marker {
		w.slotFreed(s, e, now)
	} else {
		w.slotTaken(s, e, now, age)
	}
	if t := p.Ticket(held.Ticket); t != nil && held.Ticket != s.Value.Ticket && t.claim == s {
		t.claim = p.claimNaming(t.Place) // without one, the claim was void and its ticket stands again
	}
	p.reindex(s)
	if s.Taken && e.Slot.Fence == 0 && e.Corrupt == nil {
		p.claimed(s, w.Exact())
		w.open.put(p, len(p.open) > 0)
	}
	w.touch(p)
}

func (w *World) slotFreed(s *Slot, e *entry.Entry, now Instant) {
	w.remark(&s.due, &s.life, e, now)
	w.marks.set(&s.mark, s.life.present.Add(expiryLate))
	if t := s.Pool.Ticket(e.Ticket); t != nil && !t.Value.Spent {
		w.removeTicket(t)
		w.ends.set(&t.due, now.Add(garbageTime))
	}
	if e.Owner != "" {
		s.Pool.noteRelease(e.Owner, s.seen, now)
	}
}

func (w *World) slotTaken(s *Slot, e *entry.Entry, now Instant, age time.Duration) {
	p := s.Pool
	w.marks.drop(&s.mark)
	p.index(s)
	if e.Corrupt != nil {
		w.ends.drop(&s.due)
		return
	}
	s.ends = now.Add(time.Duration(e.Slot.TTL) + Slack - age)
	w.ends.set(&s.due, s.ends)
	if e.Slot.Fence == 0 { // a renewal may be by another peer than the claimer
		w.heard(e.Slot.Claimer)
	}
	if t := p.Ticket(s.Value.Ticket); t != nil && !t.claimed() {
		t.claim = s
	}
}

func (w *World) applyTicket(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	t := &Ticket{Pool: p, Key: e.Key, Revision: e.Revision, Taken: !e.Marker, Value: e.Wait, seen: now.Add(-age)}
	t.due.of, t.mark.of = t, t
	if t.Place = e.Wait.Place; t.Place == 0 {
		t.Place = e.Revision
	}
	was := p.line.byKey[e.Key]
	if was != nil {
		t.life = was.life
		if was.lined && was.Place == t.Place {
			t.seen, t.doubted, t.doubtedAt = was.seen, was.doubted, was.doubtedAt
		}
		w.removeTicket(was)
		w.ends.drop(&was.due)
		w.marks.drop(&was.mark)
	}
	t.life.extend(e, now, age)
	if p.line.byKey == nil {
		p.line.byKey = map[entry.Key]*Ticket{}
	}
	p.line.byKey[e.Key] = t
	switch {
	case e.Marker:
		w.marks.set(&t.mark, t.life.present.Add(expiryLate))
		w.remark(&t.due, &t.life, e, now)
	case e.Corrupt == nil:
		w.lineUp(t, now)
	}
	w.touch(p)
}

// lineUp puts a ticket into the line.
func (w *World) lineUp(t *Ticket, now Instant) {
	t.author = w.session(t.Key.Session)
	t.author.tickets = append(t.author.tickets, t)
	if peer := t.Value.Peer; !peer.IsZero() && peer != t.Key.Session {
		t.peer = w.session(peer)
		t.peer.tickets = append(t.peer.tickets, t)
	}
	if t.Place != t.Revision { // otherwise no claim can have named it yet
		t.claim = t.Pool.claimNaming(t.Place)
	}
	t.Pool.line.add(t)
	w.heard(t.serverID())
	w.garbage(t, now)
}

// claimNaming is a slot that names a ticket of that place, a live one if there is
// any, or nil. One that is not live may become so: a view that loads the bucket can
// see the slot and the ticket before the session that holds both.
func (p *Pool) claimNaming(place uint64) *Slot {
	var found *Slot
	for _, s := range p.slots {
		if s == nil || !s.Taken || s.Value.Ticket != place {
			continue
		}
		if found = s; s.Live() {
			break
		}
	}
	return found
}

func (t *Ticket) serverID() entry.Hash {
	if t.peer != nil {
		return t.peer.ID
	}
	return t.author.ID
}

// removeTicket takes a ticket out of the line for good.
func (w *World) removeTicket(t *Ticket) {
	if !t.lined {
		return
	}
	t.Pool.line.remove(t)
	w.ends.drop(&t.due)
	for _, s := range [2]*Session{t.author, t.peer} {
		if s != nil {
			s.tickets = without(s.tickets, t)
			w.left(s)
		}
	}
}
