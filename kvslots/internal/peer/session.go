package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// endingPause is how long a session is left to be refreshed after its time
	// was over and the stream's leader was heard.
	endingPause = 500 * time.Millisecond

	// refreshMost is how long a refresh may go unanswered at most before it is
	// sent again.
	refreshMost = 250 * time.Millisecond
)

// sessionState is what this peer has to do with one client session. It exists for
// as long as the session is used here.
//
// With τ for half of the session's idle time, which is what its client is told: a
// session lives for 2τ from its last use. E is the end that the bucket promises. A
// request is answered, and a waiting call kept, only while E is at least τ away;
// so an answer promises τ more even if this peer dies now. A use that E does not
// cover is written no later than τ/2 before E.
type sessionState struct {
	id      entry.Hash
	calls   []*call
	parked  []parked // answers that wait for a refresh
	used    Instant
	written Instant // the end that the last acknowledged refresh of this peer promises
	stands  uint64  // the revision of that refresh, which the view may not have reached
	writing bool
	timer   timer
}

type parked struct {
	c *call
	a Answer
}

// useSession notes that a call is one of a session's.
func (p *Peer) useSession(c *call, session entry.Hash) {
	if session.IsZero() || p.calls.open[c.id] != c {
		return
	}
	c.session = session
	ss := p.sessions[session]
	if ss == nil {
		ss = &sessionState{id: session}
		ss.timer.fire = func() { p.attend(ss) }
		p.sessions[session] = ss
	}
	ss.calls = append(ss.calls, c)
	ss.used = p.now
	p.attend(ss)
}

// leaveSession notes that a call of a session is answered, which uses the session.
func (p *Peer) leaveSession(c *call) {
	ss := p.sessions[c.session]
	if ss == nil {
		return
	}
	ss.calls = without(ss.calls, c)
	ss.used = p.now
	p.attend(ss)
}

// end is E: the end that the bucket promises, wherever it is seen.
func (p *Peer) end(ss *sessionState, s *rules.Session) Instant { return max(s.Promised, ss.written) }

// park keeps an answer back until the bucket promises that the session lives for
// long enough. It returns false when it does, or when the session is gone.
func (p *Peer) park(c *call, a Answer) bool {
	ss, s := p.sessions[c.session], p.world.Session(c.session)
	if ss == nil || s == nil || !s.Present || p.closing {
		return false
	}
	if p.end(ss, s) >= p.now.Add(s.Value.Idle.Duration()/2) {
		return false
	}
	c.parked = true
	ss.parked = append(ss.parked, parked{c, a})
	p.attend(ss)
	return true
}

// unpark answers a parked call with an error: what it was granted is given back.
func (p *Peer) unpark(c *call, why error) {
	ss := p.sessions[c.session]
	for i, k := range ss.parked {
		if k.c == c {
			ss.parked = append(ss.parked[:i:i], ss.parked[i+1:]...)
			c.parked = false
			if c.undo != nil {
				c.undo()
			}
			p.deliver(c, Answer{Err: why})
			return
		}
	}
}

// attend refreshes the session if it is time, answers what was parked if it may be,
// and sees to it that it is called again.
func (p *Peer) attend(ss *sessionState) {
	s := p.world.Session(ss.id)
	if s == nil || !s.Present {
		p.forgetSession(ss)
		return
	}
	idle := s.Value.Idle.Duration()
	tau, end := idle/2, p.end(ss, s)
	if len(ss.parked) > 0 && end >= p.now.Add(tau) {
		p.answerParked(ss)
	}
	if len(ss.calls) > 0 {
		ss.used = p.now
	}
	var due Instant
	switch {
	case len(ss.parked) > 0:
		due = p.now
	case len(ss.calls) > 0:
		due = end.Add(-tau - tau/8)
	case end < ss.used.Add(idle-tau/8):
		due = end.Add(-tau / 2)
	default:
		p.forgetSession(ss)
		return
	}
	if p.watch.mode != live || ss.writing {
		p.timers.start(&ss.timer, max(due, p.now.Add(tau/8)))
		return
	}
	if due > p.now {
		p.timers.start(&ss.timer, due)
		return
	}
	p.refresh(ss, s)
}

func (p *Peer) answerParked(ss *sessionState) {
	list := ss.parked
	ss.parked = nil
	for _, k := range list {
		k.c.parked = false
		p.deliver(k.c, k.a)
	}
}

// forgetSession drops the state of a session that is not used here.
func (p *Peer) forgetSession(ss *sessionState) {
	if len(ss.calls) == 0 && len(ss.parked) == 0 && !ss.writing && p.sessions[ss.id] == ss {
		p.timers.stop(&ss.timer)
		delete(p.sessions, ss.id)
	}
}

// refresh writes the session with the time it has been idle, by compare-and-swap.
// It is never re-created. After a lost compare-and-swap the view is waited for,
// and then judged again.
func (p *Peer) refresh(ss *sessionState, s *rules.Session) {
	key := rules.SessionKey(ss.id)
	if p.world.Expiring(key, p.now) {
		return
	}
	value := s.Value
	idle := value.Idle.Duration()
	// The end that others see may be later than what is promised. It is not moved back.
	ends := min(max(ss.used.Add(idle), s.Ends), p.now.Add(idle))
	value.Idled = entry.Span(min(idle-ends.Sub(p.now), idle-time.Millisecond).Truncate(time.Millisecond))
	if p.now.Add(value.Left()) <= p.end(ss, s) {
		p.timers.start(&ss.timer, p.now.Add(idle/16)) // it would not move forward
		return
	}
	ss.writing = true
	sentAt := p.now
	w := p.send(p.value(key, value, max(s.Revision, ss.stands), value.Left()), nil)
	p.hasten(w, min(idle/16, refreshMost))
	w.done = func(a Ack) {
		ss.writing = false
		switch a.Outcome {
		case Written:
			ss.written = max(ss.written, sentAt.Add(value.Left()))
			ss.stands = a.Revision
			p.attend(ss)
		case Conflict:
			ss.writing = true
			p.whenReached(a.Revision, func() {
				ss.writing = false
				p.attend(ss)
			})
		default:
			p.attend(ss)
		}
	}
}

// hasten sends a write again sooner than others while it goes unanswered.
func (p *Peer) hasten(w *write, d time.Duration) {
	p.after(d, func() {
		if !w.over {
			if !w.pausing {
				p.again(w)
			}
			p.hasten(w, d)
		}
	})
}

// sessionSeen ends the calls of a session that has ended, and lets those go on that
// waited for it to be there.
func (p *Peer) sessionSeen(e *entry.Entry) {
	delete(p.calls.creating, e.Key.Session)
	ss := p.sessions[e.Key.Session]
	if ss == nil {
		return
	}
	if !e.Marker {
		p.attend(ss)
		return
	}
	calls, late := ss.calls, ss.parked
	ss.calls, ss.parked = nil, nil
	for _, k := range late {
		k.c.parked = false
		if k.c.effect { // it has been done: that is what is told
			p.deliver(k.c, k.a)
		}
	}
	for _, c := range calls {
		switch {
		case c.effect:
		case c.quit != nil:
			quit := c.quit
			c.quit = nil
			quit(ErrSessionGone)
		default:
			p.answer(c, Answer{Err: ErrSessionGone})
		}
	}
	p.forgetSession(ss)
}

func (r Ping) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.useSession(c, r.Session)
	p.ask(c, func() {
		if !p.world.Alive(r.Session) {
			p.answer(c, Answer{Err: ErrSessionGone})
			return
		}
		p.answer(c, Answer{})
	})
}

func (r CreateSession) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	if err := p.sessionCap(r.Origin); err != nil {
		p.answer(c, Answer{Err: err})
		return
	}
	put(&p.calls.creating, r.Session, r.Origin)
	value := entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(r.Idle), Origin: r.Origin}
	key := rules.SessionKey(r.Session)
	p.send(p.value(key, value, 0, r.Idle), func(a Ack) {
		switch a.Outcome {
		case Written, Conflict: // the id is new: a conflict is with an earlier copy
			p.whenReached(a.Revision, func() {
				if !p.world.Alive(r.Session) { // the view took so long that it has ended meanwhile
					p.answer(c, Answer{Err: ErrUnavailable})
					return
				}
				p.useSession(c, r.Session)
				p.answer(c, Answer{})
			})
		default:
			delete(p.calls.creating, r.Session)
			p.answer(c, Answer{Err: ErrUnavailable})
		}
	})
}

func (p *Peer) sessionCap(origin entry.Hash) error {
	if most := p.cfg.MaxSessions; most > 0 && p.world.Clients()+len(p.calls.creating) >= most {
		return ErrMaxSessions
	}
	if most := p.cfg.MaxSessionsPerOrigin; most > 0 && !origin.IsZero() {
		n := p.world.ClientsFrom(origin)
		for _, from := range p.calls.creating {
			if from == origin {
				n++
			}
		}
		if n >= most {
			return ErrMaxSessionsPerOrigin
		}
	}
	return nil
}

func (r EndSession) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.endSession(r.Session, c)
}

func (p *Peer) endSession(session entry.Hash, c *call) {
	s := p.world.Session(session)
	if s == nil || !s.Present || p.watch.mode != live {
		p.ask(c, func() {
			if p.world.Alive(session) {
				p.endSession(session, c)
			} else {
				p.answer(c, Answer{Err: ErrSessionGone})
			}
		})
		return
	}
	author := p.randomNumber()
	m := p.purge(rules.SessionKey(session), s.Revision)
	m.Author = author
	p.send(m, func(a Ack) {
		switch a.Outcome {
		case Written:
			p.whenReached(a.Revision, func() {
				p.clearSession(session)
				p.answer(c, Answer{})
			})
		case Conflict:
			p.whenReached(a.Revision, func() {
				if p.world.EndedBy(session, author) {
					p.clearSession(session)
					p.answer(c, Answer{})
					return
				}
				if a.Revision == 0 {
					p.answer(c, Answer{Err: ErrSessionGone})
					return
				}
				p.after(inFlightPause, func() { p.endSession(session, c) })
			})
		default:
			p.answer(c, Answer{Err: ErrUnavailable})
		}
	})
}

// clearSession purges what a session that has ended leaves. What it held is free
// by then, and it stands in no line; the keys are all that is left.
func (p *Peer) clearSession(session entry.Hash) {
	s := p.world.Session(session)
	if s == nil || s.Present {
		return
	}
	for _, slot := range s.Slots() {
		p.release(rules.SlotKey(slot.Pool.ID, slot.Position), slot.Revision, nil)
	}
	for _, t := range s.Tickets() {
		if t.Garbage() { // a peer's are also those that it was to claim for
			p.release(t.Key, t.Revision, nil)
		}
	}
}
