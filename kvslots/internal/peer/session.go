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
	*leases
	byID map[entry.Hash]*sessionState
}

func newSessions(l *leases) *sessions {
	return &sessions{leases: l, byID: map[entry.Hash]*sessionState{}}
}

func (p *sessions) inUse() int { return len(p.byID) }

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
	ss := p.byID[session]
	if ss == nil {
		ss = &sessionState{s: p, id: session}
		p.byID[session] = ss
	}
	c.useSession(ss)
	ss.calls = append(ss.calls, c)
	ss.used = p.now()
	ss.attend()
}

// answered records that a call of a session was answered, which uses the session.
func (ss *sessionState) answered(c *call) {
	ss.calls = without(ss.calls, c)
	ss.used = ss.s.now()
	ss.attend()
}

// delays reports whether an answer has to wait until the bucket promises that the session lives for
// τ more.
func (ss *sessionState) delays() bool {
	s := ss.s.view().Session(ss.id)
	return s.Alive() && !ss.s.isStopping() && s.Promised < ss.s.now().Add(s.Value.Idle.Duration()/2)
}

func (ss *sessionState) takeBack(a *Answer) { ss.s.takeBack(a) }

// unpark delivers an answer that has waited. The ttl of a lease begins only now.
func (ss *sessionState) unpark(c *call) {
	a := c.kept()
	if !ss.s.promiseAnew(a) {
		ss.s.takeBack(a)
		*a = Answer{Err: ErrUnavailable}
	}
	c.deliver(*a)
}

// parked returns the calls whose answers wait for a refresh.
func (ss *sessionState) parked() []*call {
	var list []*call
	for _, c := range ss.calls {
		if c.kept() != nil {
			list = append(list, c)
		}
	}
	return list
}

// attend delivers the parked answers if E allows, refreshes the session if it is time,
// and sets the timer that calls attend again.
func (ss *sessionState) attend() {
	s := ss.s.view().Session(ss.id)
	if !s.Alive() {
		ss.forget()
		return
	}
	idle := s.Value.Idle.Duration()
	tau, end := idle/2, s.Promised
	parked := ss.parked()
	if end >= ss.s.now().Add(tau) {
		for _, c := range parked {
			if c.kept() != nil { // delivering one answer may deliver the others
				ss.unpark(c)
			}
		}
		parked = nil
	}
	if len(ss.calls) > 0 {
		ss.used = ss.s.now()
	}
	var due Instant
	switch {
	case len(parked) > 0:
		due = ss.s.now()
	case len(ss.calls) > 0:
		due = end.Add(-tau - tau/8)
	case end < ss.used.Add(idle-tau/8):
		due = end.Add(-tau / 2)
	default:
		ss.forget()
		return
	}
	if ss.s.isWriting(rules.SessionKey(ss.id)) {
		due = max(due, ss.s.now().Add(tau/8))
	}
	if due > ss.s.now() {
		ss.s.armFor(&ss.timer, due, (*attention)(ss))
		return
	}
	ss.refresh(s)
}

// attention is a session that is to be attended to.
type attention sessionState

func (a *attention) fire() { (*sessionState)(a).attend() }

// forget drops the state of a session without pending work.
func (ss *sessionState) forget() {
	if len(ss.calls) == 0 && !ss.s.isWriting(rules.SessionKey(ss.id)) && ss.s.byID[ss.id] == ss {
		ss.s.disarm(&ss.timer)
		delete(ss.s.byID, ss.id)
	}
}

// refresh writes the session, with the time that it has been idle, by compare-and-swap.
// It never re-creates a session. If the compare-and-swap fails, it waits for the view
// and calls attend.
func (ss *sessionState) refresh(s *rules.Session) {
	key := rules.SessionKey(ss.id)
	if ss.s.isStopping() || ss.s.view().Expiring(key, ss.s.now()) {
		return
	}
	value := s.Value
	idle := value.Idle.Duration()
	// The end in the view may be later than the promised one. Do not move it back.
	ends := min(max(ss.used.Add(idle), s.Ends), ss.s.now().Add(idle))
	value.Idled = entry.Span(min(idle-ends.Sub(ss.s.now()), idle-time.Millisecond).Truncate(time.Millisecond))
	sentAt := ss.s.now()
	w := ss.s.put(ss.s.value(key, value, s.Revision, value.Left()), func(r *write) {
		if s := ss.s.view().Session(ss.id); r.written() && s.Alive() {
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
	if p.isDisowned(e.Author) { // no client knows of it
		p.undo(e.Author, e.Key, e.Revision, nil)
	}
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
		case !c.hasEffect():
			c.dropKept()
			c.end(ErrSessionGone)
		case c.kept() != nil: // it has taken effect: deliver that outcome
			ss.unpark(c)
		}
	}
	ss.forget()
}

func (p *sessions) ping(c *call, r Ping) {
	p.whenCurrent(c, func() {
		if !p.view().Alive(r.Session) {
			c.answer(Answer{Err: ErrSessionGone})
			return
		}
		c.answer(Answer{})
	})
}

func (p *sessions) create(c *call, r CreateSession) {
	p.decide(c, func(current bool) (decided bool) {
		switch err := r.reached(p); {
		case err == nil:
			r.create(p, c)
		case !current:
			return false
		default:
			c.answer(Answer{Err: err})
		}
		return true
	})
}

func (r CreateSession) create(p *sessions, c *call) {
	value := entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(r.Idle), Origin: r.Origin, Label: r.Label}
	key := rules.SessionKey(r.Session)
	sentAt := p.now()
	p.put(p.value(key, value, 0, r.Idle), func(f *write) { // the id is new: no other peer writes it
		if f.unknown() {
			f.fenceOff()
		}
		s := p.view().Session(r.Session)
		if !f.written() || !s.Alive() { // the session may have ended before the view reached it
			c.answer(Answer{Err: ErrUnavailable})
			return
		}
		a := Answer{created: r.Session}
		if !c.isOpen() {
			p.takeBack(&a)
			return
		}
		s.Promise(sentAt.Add(r.Idle))
		p.use(c, r.Session)
		c.onQuit(quitFunc(func(why error) {
			if why == ErrSessionGone { // its client has never known of it
				why = ErrUnavailable
			}
			c.answer(Answer{Err: why})
		}))
		c.answer(a)
	})
}

// reached returns which cap forbids another session.
func (r CreateSession) reached(p *sessions) error {
	err := p.tombstonesReached(r.Origin)
	if err == nil {
		err = reached(p.view().Clients, p.settings().MaxSessions, ErrMaxSessions)
	}
	if err == nil && !r.Origin.IsZero() {
		err = reached(p.view().ClientsFrom(r.Origin), p.settings().MaxSessionsPerOrigin, ErrMaxSessionsPerOrigin)
	}
	return err
}
