package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (p *sessions) end(c *call, r EndSession) {
	p.decide(c, func(current bool) bool {
		s := p.view().Session(r.Session)
		if !s.Alive() {
			if current {
				c.answer(Answer{Err: ErrSessionGone})
			}
			return current
		}
		p.putFor(c, p.purge(rules.SessionKey(r.Session), s.Revision), func(*write) {
			p.clear(r.Session)
			c.answer(Answer{})
		}, func() { p.end(c, r) })
		return true
	})
}

// expire ends a session whose idle time is over. It first sends a barrier, and
// then leaves endingPause for a refresh of the session: time without a leader must not end
// a session.
func (p *sessions) expire(d rules.DueKey) {
	if d.Key == p.selfKey() {
		return
	}
	end := func() {
		s := p.view().Session(d.Key.Session)
		if !s.Alive() || s.Revision != d.Revision || s.Ends > p.now() || p.wasQuiet() || p.isWritingOver(d.Key, d.Revision) {
			return
		}
		m := p.purge(d.Key, d.Revision)
		m.Cause = entry.Expired
		p.discardAs(m, func(w *write) {
			if w.written() {
				p.clear(d.Key.Session)
			}
		})
	}
	if p.settings().Sole && d.Session.Value.Kind == entry.SessionPeer {
		end()
		return
	}
	p.whenCurrent(nil, func() { p.after(nil, endingPause, end) })
}

// clear purges the keys of a session that has ended. Its slots are free and its
// tickets out of the line already.
func (p *sessions) clear(session entry.Hash) {
	s := p.view().Session(session)
	if s == nil || s.Alive() {
		return
	}
	for _, slot := range s.Slots {
		p.discard(rules.SlotKey(slot.Pool.ID, slot.Position), slot.Revision, nil)
	}
	for _, t := range s.Tickets {
		if t.Garbage() { // a peer may have adopted tickets that still stand
			p.discard(t.Key, t.Revision, nil)
		}
	}
}
