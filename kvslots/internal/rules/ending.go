package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Due is a key that is to be purged, with the revision that it stands at.
type Due struct {
	Key      entry.Key
	Revision uint64
	Slot     *Slot   // of the key, if it is a slot's
	Ticket   *Ticket // of the key, if it is a ticket's
	Session  *Session
	Marker   bool // it is free already, but its marker has to be written again; what follows means nothing then
	Garbage  bool // it means nothing any more; only an exact view knows that
	Refresh  bool // it is not to be purged but written again: a ticket that outlasts its key
}

// deadlines are when the keys of the bucket are to be purged, or forgotten.
type deadlines struct {
	ends      dues   // of slots, sessions and garbage: to be purged
	marks     dues   // of free keys: to be forgotten
	Forgotten uint64 // the highest revision of a marker that was forgotten
}

// NextDue is when the next key is to be purged or forgotten; ok is false when
// there is none.
func (d *deadlines) NextDue() (at Instant, ok bool) {
	for _, q := range [2]dues{d.ends, d.marks} {
		if len(q) > 0 && (!ok || q[0].at < at) {
			at, ok = q[0].at, true
		}
	}
	return at, ok
}

// Due are the keys, at most limit, whose time has come. Each will come up again
// after retry unless it changes, so that a purge that failed is tried again.
func (w *World) Due(retry time.Duration, limit int, found []Due, now Instant) []Due {
	for len(w.ends) > 0 && len(found) < limit && w.ends[0].at <= now {
		d := w.ends[0]
		due := Due{}
		switch of := d.of.(type) {
		case *Slot:
			due = Due{Key: SlotKey(of.Pool.ID, of.Position), Revision: of.Revision, Slot: of, Marker: !of.Taken, Garbage: of.meaningless()}
			if of.Taken && !due.Garbage && now < of.Ends { // it came to mean something after all
				w.ends.set(d, of.Ends)
				continue
			}
		case *Ticket:
			garbage := of.Garbage()
			if of.Taken && !garbage && !of.Value.Enqueued() {
				w.ends.drop(d)
				continue
			}
			due = Due{Key: of.Key, Revision: of.Revision, Ticket: of, Marker: !of.Taken, Garbage: garbage, Refresh: !garbage}
		case *Session:
			due = Due{Key: SessionKey(of.ID), Revision: of.Revision, Session: of, Marker: !of.Taken}
		}
		found = append(found, due)
		w.ends.set(d, now.Add(retry))
	}
	return found
}

// SlotKey is the key of a pool's slot.
func SlotKey(pool entry.Hash, position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: pool, N: position}
}

// SessionKey is the key of a session.
func SessionKey(id entry.Hash) entry.Key { return entry.Key{Kind: entry.Session, Session: id} }

// Forget drops the free keys whose markers have gone from the bucket by now:
// their last revision is 0 again, and a pool without a key is no pool.
func (w *World) Forget(now Instant) {
	for len(w.endings) > 0 && w.endings[0].until < now {
		w.endings = w.endings[1:]
	}
	for len(w.marks) > 0 && w.marks[0].at <= now {
		w.forget(w.marks[0])
	}
}

func (w *World) forget(mark *due) {
	w.marks.drop(mark)
	switch of := mark.of.(type) {
	case *Slot:
		w.absent(&of.record)
		of.Pool.dropSlot(of)
		w.forgetPool(of.Pool)
	case *Pool:
		w.absent(&of.cfg)
		of.past = nil
		w.forgetPool(of)
	case *Ticket:
		w.absent(&of.record)
		delete(of.Pool.line.byKey, of.Key)
		w.forgetPool(of.Pool)
	case *Session:
		w.absent(&of.record) // what it left may keep it for longer
		w.left(of)
	}
}

// absent notes that a key is in the bucket no more.
func (d *deadlines) absent(r *record) {
	d.Forgotten = max(d.Forgotten, r.Revision)
	d.ends.drop(&r.due)
	r.Revision = 0
}

// forgetPool forgets a pool of which nothing is known any more.
func (w *World) forgetPool(p *Pool) {
	if p.cfg.Revision != 0 || len(p.slots) != 0 {
		return
	}
	p.past = nil
	if len(p.line.byKey) == 0 {
		w.idles.drop(&p.idle)
		delete(w.pools, p.ID)
	}
}

// garbage has a ticket purged soon if it can never stand again, and an enqueued one
// written again when half of its key's life is over.
func (d *deadlines) garbage(t *Ticket, now Instant) {
	switch {
	case t.Garbage():
		d.ends.set(&t.due, now.Add(garbageTime))
	case t.Value.Enqueued():
		d.ends.set(&t.due, t.life.present.Add(-Guard-EnqueuedLife/2))
	}
}

// Garbage reports whether the ticket can never stand again: it was served, its
// author has ended, or the peer that was to claim for it, or it was drawn for another generation.
func (t *Ticket) Garbage() bool {
	return !t.lined || !t.author.Alive() || !t.Value.Enqueued() && !t.server.Alive() ||
		!t.Value.Spent && t.Value.Generation != t.Pool.Generation()
}

// settleStrays has the slots purged soon that hold nothing, and lets those live
// on that hold something after all.
func (w *World) settleStrays(p *Pool, now Instant) {
	for _, s := range p.strays {
		switch stray := s.meaningless(); {
		case stray == s.stray || !s.Taken || s.Value.TTL == 0 && !stray:
		case stray:
			s.stray = true
			w.ends.set(&s.due, now.Add(garbageTime))
		default:
			s.stray = false
			w.ends.set(&s.due, s.Ends)
		}
	}
	clear(p.strays)
	p.strays = p.strays[:0]
}

// EndAt sets when a slot's lease ends, if the slot still has that revision: the
// peer that answered its caller knows it better.
func (d *deadlines) EndAt(s *Slot, revision uint64, at Instant) {
	if s.Revision == revision && s.Taken {
		s.Ends = at
		d.ends.set(&s.due, at)
	}
}

// Postpone gives every session its idle time again, from now on: the time in
// which it could not be refreshed was no idle time. It does the same for no
// lease: a lease ends by the clock.
func (w *World) Postpone(now Instant) {
	for _, s := range w.sorted() {
		if s.Taken {
			s.Ends = max(s.Ends, now.Add(time.Duration(s.Value.Idle)))
			w.ends.set(&s.due, s.Ends)
		}
	}
}

// HoldBack has every lease end later by the slack, and none before that time.
func (w *World) HoldBack(until Instant, slack time.Duration) {
	w.eachLease(func(s *Slot) { w.EndAt(s, s.Revision, max(s.Ends.Add(slack), until)) })
}

// CountAnew counts the time of the leases that were written up to a revision from
// now on.
func (w *World) CountAnew(upTo uint64, now Instant) {
	w.eachLease(func(s *Slot) {
		if s.Revision <= upTo {
			w.EndAt(s, s.Revision, max(s.Ends, now.Add(time.Duration(s.Value.TTL)+Slack)))
		}
	})
}

// eachLease calls do for every lease, in an order that does not depend on a map's.
func (w *World) eachLease(do func(*Slot)) {
	for _, p := range slices.SortedFunc(maps.Values(w.pools), func(x, y *Pool) int { return slices.Compare(x.ID[:], y.ID[:]) }) {
		for _, s := range p.slots {
			if s != nil && s.Taken && s.Value.TTL > 0 && !s.stray {
				do(s)
			}
		}
	}
}

// EndOthers has all peers' presences but one end now.
func (w *World) EndOthers(self entry.Hash, now Instant) {
	for _, s := range w.sorted() {
		if s.Taken && s.ID != self && s.Value.Kind == entry.SessionPeer {
			s.Ends = now
			w.ends.set(&s.due, now)
		}
	}
}

// sorted are the sessions in an order that does not depend on a map's.
func (ss *sessions) sorted() []*Session {
	return slices.SortedFunc(maps.Values(ss.byID), func(x, y *Session) int { return slices.Compare(x.ID[:], y.ID[:]) })
}
