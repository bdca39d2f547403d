package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func enqueued(n int, place uint64) entry.Entry {
	e := ticket(ticketKey(poolID(1), sessionID(n), 0), leaseID(n), 1)
	e.Ticket.TTL, e.Ticket.Place = entry.Span(10*time.Second), place
	return e
}

// A view that loads the bucket may apply a slot, then the ticket that it serves, which
// was written again, and their session last. The ticket counts as served.
func TestLoadedTicketIsClaimed(t *testing.T) {
	s, v := newStream(), newView()
	for _, e := range []entry.Entry{
		config(poolID(1), 2, 1), client(sessionID(1)), enqueued(1, 0),
		claim(0, entry.SlotValue{Lease: leaseID(1), Session: sessionID(1), Ticket: 3}), enqueued(1, 3), client(sessionID(1)),
	} {
		s.write(e)
	}
	for _, e := range s.log {
		if s.last[e.Key].Revision == e.Revision {
			v.Apply(&e, 0, s.instant())
		}
	}
	p := v.Pool(poolID(1))
	if k := p.Ticket(3); k.Stands() || k.Claim() != p.Slot(0) || len(p.Able()) != 0 {
		t.Errorf("stands: %v, claimed by %v, %d tickets are able", k.Stands(), k.Claim(), len(p.Able()))
	}
}

// A ticket whose claim was withdrawn does not stand while another slot names it.
func TestTicketNamedTwice(t *testing.T) {
	s, v, p := lent(t, 0)
	feed(s, v, alive(sessionID(1)))
	place := feed(s, v, ticket(ticketKey(p.ID, sessionID(1), 0), leaseID(1), 1))
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), Ticket: place}))
	feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(1), Ticket: place}))
	if !p.Slot(1).Excluded() || p.Slot(0).Excluded() {
		t.Error("the second claim for the ticket is not void, or the first one is")
	}
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	if k := p.Ticket(place); k.Stands() || k.Claim() != p.Slot(1) || p.Waiting() != 0 {
		t.Error("the ticket stands while a slot names it")
	}
	if feed(s, v, marker(rules.SlotKey(p.ID, 1))); p.Waiting() != 1 {
		t.Error("the ticket does not stand again")
	}
}

// A corrupt ticket is not in the line. One that was served is, until its own key is purged:
// the purge of the slot does not take it out, although it may name it.
func TestTicketOutOfLine(t *testing.T) {
	s, v, p := lent(t, 0)
	feed(s, v, client(sessionID(1)))
	key := ticketKey(p.ID, sessionID(1), 0)
	feed(s, v, corrupt(key))
	if k := p.TicketAt(key); k == nil || k.Stands() || k.Claim() != nil {
		t.Errorf("a corrupt ticket: %+v", k)
	}
	place := feed(s, v, enqueued(1, 0))
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), Session: sessionID(1), Ticket: place}))
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	if k := p.TicketAt(key); k == nil || !k.Stands() || k.Garbage() || p.Ticket(place) != k {
		t.Errorf("the ticket of a slot that is free again: %+v", k)
	}
	if feed(s, v, marker(key)); p.Ticket(place) != nil || p.Waiting() != 0 {
		t.Error("a ticket that was purged is in the line")
	}
}

// The cap on a line counts what the view shows and what the peer is about to write, and 0 is no
// cap: here one ticket waits.
func TestCapIsReached(t *testing.T) {
	s, v := newStream(), newView()
	named := config(poolID(1), 1, 1)
	named.Config.Terms = entry.Terms{Name: "a", Limit: 1}
	feed(s, v, named)
	feed(s, v, alive(sessionID(1)))
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1)}))
	feed(s, v, ticket(ticketKey(poolID(1), sessionID(1), 0), leaseID(2), 1))
	for _, c := range []struct {
		most, more int
		want       bool
	}{{0, 9, false}, {1, 0, true}, {2, 0, false}, {2, 1, true}, {2, 2, true}, {3, 1, false}} {
		if got := v.Pool(poolID(1)).LineReaches(c.most, c.more); got != c.want {
			t.Errorf("one and %d more reach a cap of %d: %t", c.more, c.most, got)
		}
	}
}
