package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// endingPause is how long a session whose time is over may still be refreshed
	// after the stream's leader has answered a barrier.
	endingPause = 500 * time.Millisecond

	// refreshMost is the longest time after which an unanswered refresh is sent again.
	refreshMost = 250 * time.Millisecond
)

// sessions holds the client sessions in use at this peer.
type sessions struct {
	*kernel
	byID map[entry.Hash]*sessionState
}

// sessionState is this peer's pending work for one client session. It exists for as
// long as clients use the session at this peer.
//
// Let τ be half of the session's idle time, which is the idle timeout that its client
// knows. A session lives for 2τ from its last use. Let E be the end that the bucket
// promises. The peer answers a request, and keeps a call waiting, only while E is at
// least τ away: so an answer promises τ more even if this peer dies now. A use that E
// does not cover is written no later than τ/2 before E.
type sessionState struct {
	s     *sessions
	id    entry.Hash
	calls []*call
	used  Instant // when a client last used it at this peer
	timer timer
}

// use records that a call is one of a session's calls.
func (p *sessions) use(c *call, session entry.Hash) {
	if session.IsZero() || !c.isOpen() {
		return
	}
	c.session = session
	ss := p.byID[session]
	if ss == nil {
		ss = &sessionState{s: p, id: session}
		ss.timer.fire = func() { ss.attend() }
		p.byID[session] = ss
	}
	ss.calls = append(ss.calls, c)
	ss.used = p.now
	ss.attend()
}

// left records that a call of a session was answered, which uses the session.
func (p *sessions) left(c *call) {
	ss := p.byID[c.session]
	if ss == nil {
		return
	}
	ss.calls = without(ss.calls, c)
	ss.used = p.now
	ss.attend()
}

// park keeps an answer until the bucket promises that the session lives for τ more. It
// returns false if the answer need not wait, or if the session is gone.
func (p *sessions) park(c *call, a Answer) bool {
	ss, s := p.byID[c.session], p.view.Session(c.session)
	if ss == nil || !s.Alive() || p.stopping {
		return false
	}
	if s.Promised >= p.now.Add(s.Value.Idle.Duration()/2) {
		return false
	}
	c.parked = &a
	ss.attend()
	return true
}

// unpark delivers an answer that park has kept. The ttl of a lease begins only now.
func (c *call) unpark() {
	if !c.k.promiseAnew(c.parked) {
		c.k.takeBack(c.parked)
		*c.parked = Answer{Err: ErrUnavailable}
	}
	c.deliver(*c.parked)
}

// parked returns the calls whose answers wait for a refresh.
func (ss *sessionState) parked() []*call {
	var list []*call
	for _, c := range ss.calls {
		if c.parked != nil {
			list = append(list, c)
		}
	}
	return list
}

// attend delivers the parked answers if E allows, refreshes the session if it is time,
// and sets the timer that calls attend again.
func (ss *sessionState) attend() {
	s := ss.s.view.Session(ss.id)
	if !s.Alive() {
		ss.forget()
		return
	}
	idle := s.Value.Idle.Duration()
	tau, end := idle/2, s.Promised
	parked := ss.parked()
	if end >= ss.s.now.Add(tau) {
		for _, c := range parked {
			if c.parked != nil { // delivering one answer may deliver the others
				c.unpark()
			}
		}
		parked = nil
	}
	if len(ss.calls) > 0 {
		ss.used = ss.s.now
	}
	var due Instant
	switch {
	case len(parked) > 0:
		due = ss.s.now
	case len(ss.calls) > 0:
		due = end.Add(-tau - tau/8)
	case end < ss.used.Add(idle-tau/8):
		due = end.Add(-tau / 2)
	default:
		ss.forget()
		return
	}
	if ss.s.writes.isWriting(rules.SessionKey(ss.id)) {
		due = max(due, ss.s.now.Add(tau/8))
	}
	if due > ss.s.now {
		ss.s.timers.start(&ss.timer, due)
		return
	}
	ss.refresh(s)
}

// forget drops the state of a session without pending work.
func (ss *sessionState) forget() {
	if len(ss.calls) == 0 && !ss.s.writes.isWriting(rules.SessionKey(ss.id)) && ss.s.byID[ss.id] == ss {
		ss.s.timers.stop(&ss.timer)
		delete(ss.s.byID, ss.id)
	}
}

// refresh writes the session, with the time that it has been idle, by compare-and-swap.
// It never re-creates a session. If the compare-and-swap fails, it waits for the view
// and calls attend.
func (ss *sessionState) refresh(s *rules.Session) {
	key := rules.SessionKey(ss.id)
	if ss.s.stopping || ss.s.view.Expiring(key, ss.s.now) {
		return
	}
	value := s.Value
	idle := value.Idle.Duration()
	// The end in the view may be later than the promised one. Do not move it back.
	ends := min(max(ss.used.Add(idle), s.Ends), ss.s.now.Add(idle))
	value.Idled = entry.Span(min(idle-ends.Sub(ss.s.now), idle-time.Millisecond).Truncate(time.Millisecond))
	sentAt := ss.s.now
	w := ss.s.writes.put(ss.s.value(key, value, s.Revision, value.Left()), func(r resolution) {
		if s := ss.s.view.Session(ss.id); r.result == written && s.Alive() {
			s.Promise(sentAt.Add(value.Left()))
		}
		if ss.s.byID[ss.id] == ss {
			ss.attend()
		}
	})
	w.repeatEvery(min(idle/16, refreshMost))
}

// note handles the applied entry of a session: it ends the calls of a session
// that has ended, and otherwise calls attend.
func (p *sessions) note(e *entry.Entry) {
	ss := p.byID[e.Key.Session]
	if ss == nil {
		return
	}
	if !e.Marker {
		ss.attend()
		return
	}
	calls := ss.calls
	ss.calls = nil
	for _, c := range calls {
		switch {
		case !c.effect:
			c.parked = nil
			c.end(ErrSessionGone)
		case c.parked != nil: // it has taken effect: deliver that outcome
			c.unpark()
		}
	}
	ss.forget()
}

func (p *sessions) ping(c *call, r Ping) {
	p.reads.whenCurrent(c, func() {
		if !p.view.Alive(r.Session) {
			c.answer(Answer{Err: ErrSessionGone})
			return
		}
		c.answer(Answer{})
	})
}

func (p *sessions) create(c *call, r CreateSession) {
	c.decide(func(current bool) bool { return r.step(p, c, current) })
}

func (r CreateSession) step(p *sessions, c *call, current bool) (decided bool) {
	switch waits, err := p.reached(r.Origin, r.limits(p)); {
	case !waits && err == nil:
		r.create(p, c)
	case !current:
		return false
	case waits:
		c.after(failurePause, func() { r.step(p, c, true) })
	default:
		c.answer(Answer{Err: err})
	}
	return true
}

func (r CreateSession) create(p *sessions, c *call) {
	value := entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(r.Idle), Origin: r.Origin, Label: r.Label}
	key := rules.SessionKey(r.Session)
	sentAt := p.now
	w := p.writes.put(p.value(key, value, 0, r.Idle), func(f resolution) { // the id is new: no other peer writes it
		if f.result != written || !p.view.Alive(r.Session) { // the session may have ended before the view reached it
			c.answer(Answer{Err: ErrUnavailable})
			return
		}
		p.view.Session(r.Session).Promise(sentAt.Add(r.Idle))
		p.use(c, r.Session)
		c.quit = quitFunc(func(why error) {
			if why == ErrSessionGone { // its client has never known of it
				why = ErrUnavailable
			}
			c.answer(Answer{Err: why})
		})
		c.answer(Answer{})
	})
	w.charge(r.limits(p))
}

func (r CreateSession) limits(p *sessions) []limit {
	all := limit{quota{of: ofSessions}, p.cfg.MaxSessions, p.view.Clients, ErrMaxSessions}
	if r.Origin.IsZero() {
		return []limit{all}
	}
	return []limit{all, {quota{ofSessions, r.Origin}, p.cfg.MaxSessionsPerOrigin, p.view.ClientsFrom(r.Origin), ErrMaxSessionsPerOrigin}}
}
