package rules

import (
	"cmp"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

func (v *View) applyConfig(e *entry.Entry, now Instant, age time.Duration) {
	p := v.makePool(e.Key.Pool)
	before := p.Generation()
	v.note(&p.cfg, e, now, age)
	v.hold(p.outHolder(), p.ID, -1)
	p.Config = e.Config // e.Config is zero if e is a marker or corrupt
	v.hold(p.outHolder(), p.ID, 1)
	if !e.Config.Closing || before == 0 {
		p.noteUse(now)
	}
	if p.Exists() {
		v.uncountEnded(&p.endedKeys)
		p.origin = p.Config.Origin
	} else {
		v.countEnded(&p.endedKeys, e.Origin, p.keys())
	}
	if after := p.Generation(); after != before {
		for _, s := range p.slots {
			if s != nil {
				p.reindex(s)
			}
		}
		for _, t := range p.line.tickets {
			v.scheduleTicket(t, now)
		}
	}
	v.touch(p)
}

func (v *View) applySlot(e *entry.Entry, now Instant, age time.Duration) {
	p := v.makePool(e.Key.Pool)
	s := p.slotAt(e.Key.N)
	old := s.Value
	if p.leases != nil && s.Taken && p.leases[old.Lease] == s {
		delete(p.leases, old.Lease)
	}
	p.requests.drop(s)
	v.note(&s.record, e, now, age)
	p.noteUse(now)
	s.Author, s.seen = e.Author, now.Add(-age)
	if e.Slot.Fence == 0 || e.Slot.Lease != old.Lease {
		s.Granted = s.seen
	}
	s.Value, s.Fence, s.excluded, s.void = e.Slot, e.Fence(), false, false
	v.fenced = max(v.fenced, s.Fence, e.Fenced)
	s.sweepDue = false
	p.requests.add(s)
	v.setHolder(s, e.Slot.Session)
	v.hold(old.Origin, p.ID, -1)
	v.hold(s.Value.Origin, p.ID, 1)
	if e.Marker {
		v.slotFreed(s, e, now)
	} else {
		v.slotTaken(s, e, now, age)
	}
	if t := p.Ticket(old.Ticket); t != nil && old.Ticket != s.Value.Ticket && t.claim == s {
		t.claim = p.claimNaming(t.Place) // nil: the claim was void, and its ticket stands again
	}
	p.reindex(s)
	if s.Taken && e.Slot.Fence == 0 && e.Corrupt == nil {
		p.claimed(s, v.Live)
	}
	v.touch(p)
}

func (v *View) slotFreed(s *Slot, e *entry.Entry, now Instant) {
	if e.Cause == entry.Expired {
		if s.Pool.expired == nil {
			s.Pool.expired = &expiries{}
		}
		s.Pool.expired.note(s.seen, now)
	}
	if e.Owner != "" {
		s.Pool.released.note(e.Owner, s.seen, now)
	}
}

func (v *View) slotTaken(s *Slot, e *entry.Entry, now Instant, age time.Duration) {
	p := s.Pool
	p.index(s)
	if e.Corrupt != nil {
		v.ends.drop(&s.due)
		return
	}
	s.Ends = now.Add(time.Duration(e.Slot.TTL) + Slack - age)
	v.ends.set(&s.due, s.Ends)
	if e.Slot.Fence == 0 { // a claim, which only the claimer writes; any peer may renew
		v.heard(e.Slot.Claimer)
	}
	if t := p.Ticket(s.Value.Ticket); t != nil && !t.Claimed() {
		t.claim = s
	}
}

func (v *View) applyTicket(e *entry.Entry, now Instant, age time.Duration) {
	p := v.makePool(e.Key.Pool)
	t := &Ticket{Pool: p, Key: e.Key, Value: e.Ticket, Seen: now.Add(-age)}
	t.init(t)
	if t.Place = e.Ticket.Place; t.Place == 0 {
		t.Place = e.Revision
	}
	was := p.line.byKey[e.Key]
	if was != nil {
		t.life = was.life
		if was.lined && was.Place == t.Place {
			t.Seen = was.Seen
		}
		v.removeTicket(was)
		v.ends.drop(&was.due)
		v.marks.drop(&was.mark)
	}
	v.note(&t.record, e, now, age)
	p.noteUse(now)
	if p.line.byKey == nil {
		p.line.byKey = map[entry.Key]*Ticket{}
	}
	p.line.byKey[e.Key] = t
	if t.Taken && e.Corrupt == nil {
		v.lineUp(t, now)
	}
	v.touch(p)
}

func (v *View) lineUp(t *Ticket, now Instant) {
	holder, peer := t.Value.Session, cmp.Or(t.Value.Peer, t.Key.Session)
	if t.Value.Enqueued() {
		holder = t.Key.Session
	}
	if !holder.IsZero() {
		t.session = v.makeSession(holder)
		t.session.Tickets = append(t.session.Tickets, t)
		v.holdBy(t.session, t.Pool, 1)
	}
	if t.server = v.makeSession(peer); t.server != t.session {
		t.server.Tickets = append(t.server.Tickets, t)
	}
	v.hold(t.Value.Origin, t.Pool.ID, 1)
	if key := t.Value.Request; t.Kept() {
		if t.Pool.places == nil {
			t.Pool.places = map[entry.Hash]*Ticket{}
		}
		t.Pool.places[key] = t
	}
	if t.Place != t.Revision { // no claim can name a ticket before its first write
		t.claim = t.Pool.claimNaming(t.Place)
	}
	t.Pool.line.add(t)
	v.heard(t.server.ID)
	v.countPlace(t, 1)
	v.scheduleTicket(t, now)
	if t.Kept() {
		v.limitPlaces(t.Value.Waiter, now)
	}
}

// claimNaming returns a taken slot that names the ticket of a place, or nil. It
// prefers a live slot. Another one may become live: a view that loads the bucket may
// apply the slot and the ticket before the session that holds both.
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

// removeTicket removes a ticket from the line for good.
func (v *View) removeTicket(t *Ticket) {
	if !t.lined {
		return
	}
	t.Pool.line.remove(t)
	v.ends.drop(&t.due)
	v.countPlace(t, -1)
	v.noteAbsent(t, 0)
	v.hold(t.Value.Origin, t.Pool.ID, -1)
	if t.Pool.places[t.Value.Request] == t {
		delete(t.Pool.places, t.Value.Request)
	}
	if t.session != nil {
		v.holdBy(t.session, t.Pool, -1)
		t.session.Tickets = deleteFrom(t.session.Tickets, t)
		v.dropUnused(t.session)
	}
	t.server.Tickets = deleteFrom(t.server.Tickets, t)
	v.dropUnused(t.server)
}

// Apply applies one entry. It ignores entries at or below Revision. age is how long
// ago the entry was written, as far as the caller knows.
func (v *View) Apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision <= v.Revision {
		return
	}
	v.Time, v.Revision = e.Time, e.Revision
	v.update(e, age, now)
}

// Found records the revision of a key that has no value, 0 if it has no marker either, as the
// server says: it has dropped a marker earlier than the view, or kept it for longer, since its
// clock was set.
func (v *View) Found(key entry.Key, revision uint64, now Instant) {
	if revision == 0 {
		if r := v.record(key); r != nil && !r.Taken && r.mark.index != 0 {
			v.forgetKey(r)
		}
		return
	}
	v.update(&entry.Entry{Key: key, Revision: revision, Time: v.Time, Marker: true, TTL: MarkerTTL}, 0, now)
}

func (v *View) update(e *entry.Entry, age time.Duration, now Instant) {
	switch e.Key.Kind {
	case entry.Config:
		v.applyConfig(e, now, age)
	case entry.Slot:
		v.applySlot(e, now, age)
	case entry.Ticket:
		v.applyTicket(e, now, age)
	case entry.Session:
		v.applySession(e, now, age)
	case entry.Barrier:
		v.heard(e.Key.Session)
	}
	v.derive(now)
}
