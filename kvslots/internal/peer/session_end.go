package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (p *sessions) end(c *call, r EndSession) {
	c.decide(func(current bool) bool {
		s := p.view.Session(r.Session)
		if !s.Alive() {
			if current {
				c.answer(Answer{Err: ErrSessionGone})
			}
			return current
		}
		c.put(p.purge(rules.SessionKey(r.Session), s.Revision), func(resolution) {
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
	if d.Key == p.self.key() {
		return
	}
	purge := func() {
		s := p.view.Session(d.Key.Session)
		if !s.Alive() || s.Revision != d.Revision || s.Ends > p.now || p.self.wasQuiet() || p.writes.isWritingOver(d.Key, d.Revision) {
			return
		}
		m := p.kernel.purge(d.Key, d.Revision)
		m.Cause = entry.Expired
		p.writes.discardAs(m, func(r resolution) {
			if r.result == written {
				p.clear(d.Key.Session)
			}
		})
	}
	if p.cfg.Sole && d.Session.Value.Kind == entry.SessionPeer {
		purge()
		return
	}
	p.reads.whenCurrent(nil, func() { p.after(endingPause, purge) })
}

// clear purges the keys of a session that has ended. Its slots are free and its
// tickets out of the line already.
func (p *sessions) clear(session entry.Hash) {
	s := p.view.Session(session)
	if s == nil || s.Alive() {
		return
	}
	for _, slot := range s.Slots {
		p.writes.discard(rules.SlotKey(slot.Pool.ID, slot.Position), slot.Revision, nil)
	}
	for _, t := range s.Tickets {
		if t.Garbage() { // a peer may have adopted tickets that still stand
			p.writes.discard(t.Key, t.Revision, nil)
		}
	}
}
