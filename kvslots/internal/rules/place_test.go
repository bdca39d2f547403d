package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const grace = 10 * time.Second

// kept returns a ticket of peer 1 in pool 1 that keeps its place for a request key.
func kept(generation uint64) entry.Entry {
	e := ticket(ticketKey(poolID(1), sessionID(1), 1), leaseID(1), generation)
	e.Ticket.Request, e.Ticket.Grace = requestID(1), entry.Span(grace)
	return e
}

// A ticket for which no caller waits stands, and no peer waits for a claim for it.
func TestAbsentTicket(t *testing.T) {
	away := kept(1)
	away.Ticket.Away = true
	for name, then := range map[string]entry.Entry{"the callers have gone": away, "the peer has died": marker(rules.SessionKey(sessionID(1)))} {
		s, v := newStream(), newView()
		for _, e := range []entry.Entry{config(poolID(1), 1, 1), alive(sessionID(1)), kept(1)} {
			feed(s, v, e)
		}
		p := v.Pool(poolID(1))
		if len(p.Able()) != 1 || !v.Waits() {
			t.Errorf("%d tickets are able before", len(p.Able()))
		}
		feed(s, v, then)
		if len(p.Able()) != 0 || v.Waits() || p.Waiting() != 1 || p.PlaceOf(requestID(1)) == nil {
			t.Errorf("%s: %d tickets are able, and %d stand", name, len(p.Able()), p.Waiting())
		}
	}
}

// The grace of a place begins when its peer dies, also if a load has applied the ticket before
// the peer's presence.
func TestGraceOfALoadedTicket(t *testing.T) {
	s, v := newStream(), newView()
	feed(s, v, config(poolID(1), 1, 1))
	feed(s, v, kept(1))
	feed(s, v, session(sessionID(1), entry.SessionPeer, time.Hour))
	s.now += 2 * grace
	feed(s, v, marker(rules.SessionKey(sessionID(1))))
	for _, late := range []bool{false, true} {
		if due := v.Due(time.Minute, 9, s.instant()); late != (len(due) == 1 && due[0].Garbage) {
			t.Errorf("late %t: due %+v", late, due)
		}
		s.now += grace
	}
}

// A pool is registered anew all the time. A ticket of an earlier generation is due after a second.
func TestGarbageTicketIsDueInTime(t *testing.T) {
	s, v := newStream(), newView()
	feed(s, v, config(poolID(1), 1, 1))
	feed(s, v, session(sessionID(1), entry.SessionPeer, time.Hour))
	feed(s, v, kept(1))
	for generation := range uint64(4) {
		feed(s, v, config(poolID(1), 1, 2+generation))
		s.now += 400 * time.Millisecond
	}
	if due := v.Due(time.Minute, 9, s.instant()); len(due) != 1 || !due[0].Garbage {
		t.Errorf("due %+v", due)
	}
}

// Of the absent places of an origin in a pool, the oldest one gives way.
func TestDropPlaceDropsTheOldest(t *testing.T) {
	s, v := newStream(), newView()
	feed(s, v, config(poolID(1), 1, 1))
	feed(s, v, session(sessionID(1), entry.SessionPeer, time.Hour))
	for n := range 3 {
		e := kept(1)
		e.Key.N, e.Ticket.Request, e.Ticket.Waiter, e.Ticket.Away = n+1, requestID(3-n), originID(1), true
		feed(s, v, e)
		s.now += time.Second
	}
	oldest := ticketKey(poolID(1), sessionID(1), 1)
	if !v.DropPlace(v.Pool(poolID(1)), originID(1), s.instant()) {
		t.Fatal("no place is dropped")
	}
	if due := v.Due(time.Minute, 9, s.instant()); len(due) != 1 || due[0].Key != oldest || !due[0].Garbage {
		t.Errorf("due %+v, want %v", due, oldest)
	}
}
