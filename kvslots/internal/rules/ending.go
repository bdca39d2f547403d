package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

func (s *Slot) overdue() Due {
	return Due{
		Key:      entry.Key{Kind: entry.Slot, Pool: s.Pool.ID, N: s.Position},
		Revision: s.Revision,
		Ticket:   s.Value.Ticket,
	}
}

func (s *Session) overdue() Due {
	return Due{Key: entry.Key{Kind: entry.Session, Session: s.ID}, Revision: s.Revision}
}

// NextDue is when the next key is to be purged; ok is false when there is none.
func (w *World) NextDue() (at Instant, ok bool) {
	if len(w.dues) == 0 {
		return 0, false
	}
	return w.dues[0].at, true
}

// Due are the keys, at most limit, whose time has come. Each will come up again
// after retry unless it changes, so that a purge that failed is tried again.
func (w *World) Due(now Instant, retry time.Duration, limit int) []Due {
	var found []Due
	for len(w.dues) > 0 && len(found) < limit && w.dues[0].at <= now {
		d := w.dues[0]
		found = append(found, d.of.overdue())
		w.dues.set(d, now.Add(retry))
	}
	return found
}

// EndAt sets when a slot's lease ends, if the slot still has that revision.
// Only the peer that answered its holder knows it.
func (w *World) EndAt(s *Slot, revision uint64, at Instant) {
	if s.Revision == revision && s.Taken {
		s.promised, s.ends = at, at
		w.dues.set(&s.due, at)
	}
}

// Postpone gives every session its full idle time again, from now on: the time
// in which nobody could refresh it was no idle time. It does the same for no
// lease: a lease ends by the clock.
func (w *World) Postpone(now Instant) {
	for _, s := range w.sessions {
		if s.Present {
			s.Seen = now.Add(-time.Duration(s.Value.Idled))
			w.dues.set(&s.due, s.Seen.Add(time.Duration(s.Value.Idle)))
		}
	}
}

// Rebase sets anew when everything ends, from the timestamps of the entries and
// the stream's time of now: to be called when the entries were applied without
// knowing how old they were.
func (w *World) Rebase(streamNow time.Time, now Instant) {
	for _, p := range w.pools {
		for _, s := range p.slots {
			if s != nil && s.Taken && s.Value.TTL > 0 {
				age := max(0, streamNow.Sub(s.Time))
				s.seen = now.Add(-age)
				s.granted = s.seen
				s.ends = s.seen.Add(time.Duration(s.Value.TTL) + Slack)
				w.dues.set(&s.due, s.ends)
				p.reindex(s)
			}
		}
	}
	for _, s := range w.sessions {
		if s.Present {
			s.Seen = now.Add(-max(0, streamNow.Sub(s.Time)))
			w.dues.set(&s.due, s.Seen.Add(s.Value.Left()))
		}
	}
	for _, p := range w.pools {
		w.settleStrays(p, now)
		for t := p.line.first; t != nil; t = t.next {
			t.seen = now.Add(-max(0, streamNow.Sub(t.at)))
		}
	}
	w.released.rebase(streamNow, now)
	w.Settle(now)
}

// Ended tells whether the lease has lasted its time, as far as this peer can
// tell: by the end that its holder was promised, if it was this peer that
// promised it; otherwise by the lease's own ttl.
func (s *Slot) Ended(now Instant) bool {
	return now >= s.EndsAt()
}

// InTime tells whether the slot's last entry was applied before the end that
// this peer had promised for the entry before it. If so, it was written before
// it.
func (s *Slot) InTime() bool { return s.before != 0 && s.seen < s.before }

// EndOthers has all peers' presences but one end now.
func (w *World) EndOthers(self entry.Hash, now Instant) {
	for _, s := range w.sessions {
		if s.Present && s.ID != self && s.Value.Kind == entry.SessionPeer {
			w.dues.set(&s.due, now)
		}
	}
}
