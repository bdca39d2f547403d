package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Due returns up to limit keys whose deadline has passed. It sets their deadlines to
// retry later, in case the purge fails. The slice is valid until the next call.
func (v *View) Due(retry time.Duration, limit int, now Instant) []DueKey {
	found := v.found[:0]
	for len(v.ends) > 0 && len(found) < limit && v.ends[0].at <= now {
		r := v.ends[0].of
		due := DueKey{Revision: r.Revision, Marker: !r.Taken}
		switch of := r.parent.(type) {
		case *Slot:
			due.Key, due.Slot, due.Garbage = SlotKey(of.Pool.ID, of.Position), of, of.holdsNone()
		case *Ticket:
			due.Key, due.Ticket, due.Garbage = of.Key, of, of.Garbage() || of.Value.Enqueued() && of.told() || of.graceOver(now)
			if of.Taken && !due.Garbage && (of.Absent() || !of.Value.Enqueued() && !of.Kept()) {
				v.scheduleTicket(of, now)
				continue
			}
		case *Session:
			due.Key, due.Session = SessionKey(of.ID), of
		}
		found = append(found, due)
		v.ends.set(&r.due, now.Add(retry))
	}
	v.found = found
	return found
}

func SlotKey(pool entry.Hash, position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: pool, N: position}
}

func ConfigKey(pool entry.Hash) entry.Key { return entry.Key{Kind: entry.Config, Pool: pool} }

func SessionKey(id entry.Hash) entry.Key { return entry.Key{Kind: entry.Session, Session: id} }

// Forget drops the free keys whose markers have expired by now, so that their revision
// is 0 again. It also drops the pools that have no key left.
func (v *View) Forget(now Instant) {
	for len(v.marks) > 0 && v.marks[0].at <= now {
		v.forgetKey(v.marks[0].of)
	}
}

// forgetKey records that a key is not in the bucket any more.
func (v *View) forgetKey(r *record) {
	v.marks.drop(&r.mark)
	v.ends.drop(&r.due)
	r.Revision = 0
	switch of := r.parent.(type) {
	case *Slot:
		of.Pool.dropSlot(of)
		v.forgetPool(of.Pool)
	case *Pool:
		v.forgetPool(of)
	case *endedPool:
		v.uncountEnded(&of.endedKeys)
		delete(v.ended, of.id)
	case *Ticket:
		delete(of.Pool.line.byKey, of.Key)
		v.forgetPool(of.Pool)
	case *Session:
		v.dropUnused(of)
	}
}

// forgetPool drops a pool that has neither a configuration nor slots nor tickets.
func (v *View) forgetPool(p *Pool) {
	if p.cfg.Revision != 0 || len(p.slots) != 0 {
		return
	}
	if len(p.line.byKey) == 0 {
		p.setIdleQueue(nil, 0)
		v.uncountEnded(&p.endedKeys)
		delete(v.pools, p.ID)
	}
}

// scheduleTicket sets a ticket's deadline: soon if it is garbage, at the end of its grace while
// no caller waits, and when half of its key's life is over if it outlives its caller or its wait.
func (v *View) scheduleTicket(t *Ticket, now Instant) {
	d := &v.deadlines
	if absent := t.lined && t.Absent(); !absent {
		t.left = 0
	} else if t.left == 0 {
		t.left = max(now, 1)
	}
	v.noteAbsent(t, t.left)
	switch {
	case t.dropped: // due already
	case t.Garbage():
		at := now.Add(garbageTime)
		if t.due.index != 0 { // a pool that is registered anew all the time does not put it off
			at = min(at, t.due.at)
		}
		d.ends.set(&t.due, at)
	case t.left != 0:
		d.ends.set(&t.due, t.left.Add(t.Value.Grace.Duration()))
	case t.Value.Enqueued() || t.Kept():
		d.ends.set(&t.due, t.life.present.Add(-Guard-EnqueuedLife/2))
	default:
		d.ends.drop(&t.due)
	}
}

// scheduleOrphans makes the keys of orphaned values and excluded claims due soon, and
// resets the deadline of a slot that is live again.
func (v *View) scheduleOrphans(p *Pool, now Instant) {
	for _, s := range p.unsettled {
		switch orphaned := s.holdsNone(); {
		case orphaned == s.sweepDue || !s.Taken || s.Value.TTL == 0 && !orphaned:
		case orphaned:
			s.sweepDue = true
			v.ends.set(&s.due, now.Add(garbageTime))
		default:
			s.sweepDue = false
			v.ends.set(&s.due, s.Ends)
		}
	}
	clear(p.unsettled)
	p.unsettled = p.unsettled[:0]
}

// EndAt sets when a slot's lease ends, if the slot still has the given revision. The peer
// that answered the caller calls it.
func (d *deadlines) EndAt(s *Slot, revision uint64, at Instant) {
	if s.Revision == revision && s.Taken {
		s.Ends = at
		d.ends.set(&s.due, at)
	}
}

// Postpone makes every session live for its whole idle time from now on, since none
// could be refreshed without the stream. It does not change when leases end.
func (v *View) Postpone(now Instant) {
	for _, s := range v.sorted() {
		if s.Taken {
			s.Ends = max(s.Ends, now.Add(time.Duration(s.Value.Idle)))
			v.ends.set(&s.due, s.Ends)
		}
	}
}

// HoldBack postpones the end of every lease by slack, and at least to until.
func (v *View) HoldBack(until Instant, slack time.Duration) {
	v.eachLease(func(s *Slot) { v.EndAt(s, s.Revision, max(s.Ends.Add(slack), until)) })
}

// CountAnew gives every lease that was written at or below the revision upTo its whole
// ttl from now on.
func (v *View) CountAnew(upTo uint64, now Instant) {
	v.eachLease(func(s *Slot) {
		if s.Revision <= upTo {
			v.EndAt(s, s.Revision, max(s.Ends, now.Add(time.Duration(s.Value.TTL)+Slack)))
		}
	})
}

// eachLease calls do for every lease, in an order that does not depend on a map.
func (v *View) eachLease(do func(*Slot)) {
	for _, p := range slices.SortedFunc(maps.Values(v.pools), func(x, y *Pool) int { return slices.Compare(x.ID[:], y.ID[:]) }) {
		for _, s := range p.slots {
			if s != nil && s.Taken && s.Value.TTL > 0 && !s.sweepDue {
				do(s)
			}
		}
	}
}

func (v *View) EndOthers(self entry.Hash, now Instant) {
	for _, s := range v.sorted() {
		if s.Taken && s.ID != self && s.Value.Kind == entry.SessionPeer {
			s.Ends = now
			v.ends.set(&s.due, now)
		}
	}
}

// sorted returns the sessions in an order that does not depend on a map.
func (ss *sessions) sorted() []*Session {
	return slices.SortedFunc(maps.Values(ss.byID), func(x, y *Session) int { return slices.Compare(x.ID[:], y.ID[:]) })
}
