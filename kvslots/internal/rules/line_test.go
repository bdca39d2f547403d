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
	s, v := newStream(), rules.New()
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

// A corrupt ticket, and one that was served, are not in the line.
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
	m := marker(rules.SlotKey(p.ID, 0))
	m.Served = place
	feed(s, v, m)
	if k := p.TicketAt(key); k == nil || k.Stands() || !k.Served() || !k.Garbage() || p.Ticket(place) != nil {
		t.Errorf("a ticket that was served: %+v", k)
	}
}

// The purge of a slot names the ticket that the slot served. A view that skips the
// purge does not know whether that ticket stands, until it has reached a barrier.
func TestSkippedPurge(t *testing.T) {
	for name, skipped := range map[string]map[uint64]bool{
		"nothing skipped": {}, "the purge skipped": {8: true}, "the claim and the purge skipped": {6: true, 8: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := newStream(), rules.New()
			write := func(e entry.Entry) uint64 {
				if written := s.write(e); !skipped[written.Revision] {
					v.Apply(written, 0, s.instant())
				}
				return s.sequence
			}
			purge := marker(rules.SlotKey(poolID(1), 0))
			write(config(poolID(1), 1, 1))
			write(client(sessionID(1)))
			write(client(sessionID(2)))
			one, two := write(enqueued(1, 0)), write(enqueued(2, 0))
			write(claim(0, entry.SlotValue{Lease: leaseID(1), Session: sessionID(1), Ticket: one})) // 6
			spent := enqueued(1, one)
			spent.Ticket.Spent = true
			write(spent)
			purge.Served = one
			write(purge) // 8
			last := write(claim(0, entry.SlotValue{Lease: leaseID(2), Session: sessionID(2), Ticket: two}))
			write(entry.Entry{Key: barrierKey(sessionID(0))})
			v.Reached(last, s.instant())
			slot := v.Pool(poolID(1)).Slot(0)
			if slot.Revision != last || !slot.Live() || slot.Verdict() == rules.Void || len(v.Pool(poolID(1)).Able()) != 0 {
				t.Errorf("live %v, verdict %v, exact %v", slot.Live(), slot.Verdict(), v.Exact())
			}
		})
	}
}

// A ticket that may have been served does not justify a claim above a free position.
func TestDoubtfulTicketAndLowestFree(t *testing.T) {
	s, v := newStream(), rules.New()
	purge := marker(rules.SlotKey(poolID(1), 0))
	purge.Served = 3
	for i, e := range []entry.Entry{
		config(poolID(1), 3, 1), alive(sessionID(1)), ticket(ticketKey(poolID(1), sessionID(1), 0), leaseID(1), 1),
		claim(0, entry.SlotValue{Lease: leaseID(1), Ticket: 3}), purge, // skipped
		claim(0, entry.SlotValue{Lease: leaseID(2)}), {Key: barrierKey(sessionID(1))},
	} {
		if written := s.write(e); i != 3 && i != 4 {
			v.Apply(written, 0, s.instant())
		}
	}
	v.Reached(s.sequence, s.instant())
	feed(s, v, claim(2, entry.SlotValue{Lease: leaseID(3)}))
	if got := v.Pool(poolID(1)).Slot(2).Verdict(); got != rules.Lost {
		t.Errorf("judged %d; it is void to a view that saw the ticket served", got)
	}
	feed(s, v, marker(rules.SlotKey(poolID(1), 2)))
	s.now += rules.StallTime // its peer has neither purged the ticket nor claimed for it
	feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(3)}))
	if got := v.Pool(poolID(1)).Slot(1).Verdict(); got != rules.Good {
		t.Errorf("the lowest free position is judged %d", got)
	}
	feed(s, v, marker(rules.SlotKey(poolID(1), 1)))
	v.PassOver(s.instant())
	feed(s, v, claim(2, entry.SlotValue{Lease: leaseID(3)}))
	if got := v.Pool(poolID(1)).Slot(2).Verdict(); got != rules.Void {
		t.Errorf("with the ticket passed over, judged %d", got)
	}
	feed(s, v, marker(rules.SlotKey(poolID(1), 2)))
	feed(s, v, entry.Entry{Key: barrierKey(sessionID(1))}) // a sign of life: it waits again
	feed(s, v, claim(2, entry.SlotValue{Lease: leaseID(3)}))
	if got := v.Pool(poolID(1)).Slot(2).Verdict(); got != rules.Lost {
		t.Errorf("with a ticket that was passed over, judged %d", got)
	}
}

// Nor does it a second after the view has learnt that the ticket may have been served: no
// permit was free, so the ticket was not passed over, and its peer may be late.
func TestDoubtOutlastsFullPool(t *testing.T) {
	s, v := newStream(), rules.New()
	for _, e := range []entry.Entry{
		config(poolID(1), 2, 1), alive(sessionID(1)), claim(0, entry.SlotValue{}), claim(1, entry.SlotValue{}),
		ticket(ticketKey(poolID(1), sessionID(1), 0), leaseID(1), 1),
	} {
		feed(s, v, e)
	}
	p := v.Pool(poolID(1))
	s.write(marker(rules.SlotKey(p.ID, 1))) // skipped
	feed(s, v, claim(1, entry.SlotValue{}))
	v.Reached(s.sequence, s.instant())
	s.now += 2 * rules.StallTime
	v.Settle(s.instant())
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	feed(s, v, marker(rules.SlotKey(p.ID, 1)))
	if position, ok := p.Choose(nil, &rules.InFlight{}); ok {
		t.Errorf("chose position %d", position)
	}
	feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(2)}))
	if got := p.Slot(1).Verdict(); got != rules.Lost {
		t.Errorf("judged %d above a free position", got)
	}
}

// A claim that the view cannot judge is not waited for any more once its peer has purged
// its ticket, as it does when it has granted the claim.
func TestDoubtEndsWithTheTicket(t *testing.T) {
	for name, skipped := range map[string]bool{"seen": false, "skipped": true} {
		t.Run(name, func(t *testing.T) {
			s, v, p := lent(t, 0)
			feed(s, v, alive(sessionID(1)))
			k := ticket(ticketKey(p.ID, sessionID(1), 0), leaseID(1), 1)
			place := s.write(k)
			if !skipped {
				v.Apply(place, 0, s.instant())
			}
			feed(s, v, claim(1, entry.SlotValue{}))
			s.write(marker(rules.SlotKey(p.ID, 1))) // skipped
			feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), Ticket: place.Revision}))
			feed(s, v, claim(1, entry.SlotValue{}))
			if !p.DoubtBelow(1, s.instant()) {
				t.Fatalf("the verdict is %d, without a doubt", p.Slot(0).Verdict())
			}
			feed(s, v, marker(k.Key))
			if verdict := p.Slot(0).Verdict(); p.DoubtBelow(1, s.instant()) || verdict == rules.Good {
				t.Errorf("in doubt: %v, verdict %d", p.DoubtBelow(1, s.instant()), verdict)
			}
		})
	}
}
