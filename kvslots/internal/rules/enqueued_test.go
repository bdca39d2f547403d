package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim for a session's enqueued ticket reaches the stream after the ticket was purged, and so
// is void. It says nothing about the session's next Enqueue, whether that was given a ticket or
// a slot, and whether the void claim comes before that slot or after it.
func TestEnqueuedAgainBesideVoidClaim(t *testing.T) {
	const (
		none   = iota
		ticket // the session has enqueued again, and waits
		slot   // the session has enqueued again, and holds a slot
	)
	for name, c := range map[string]struct {
		next      int
		voidFirst bool
		catching  bool // the view applies the void claim during a catch-up, and so does not judge it
		serves    bool
	}{
		"no next Enqueue":            {none, true, false, false},
		"queued":                     {ticket, false, false, false},
		"queued, void claim first":   {ticket, true, false, false},
		"queued, void claim unknown": {ticket, false, true, false},
		"served":                     {slot, false, false, true},
		"served, void claim first":   {slot, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			st, v := newStream(), newView()
			id := sessionID(1)
			key := rules.EnqueuedKey(poolID(1), id)
			claimFor := func(position int, place uint64) {
				feed(st, v, claim(position, entry.SlotValue{Lease: leaseID(1), Session: id, Claimer: sessionID(2), Ticket: place, Unseen: true}))
			}
			enqueue := func() uint64 {
				return feed(st, v, entry.Entry{Key: key, Ticket: entry.TicketValue{
					Lease: leaseID(1), Peer: sessionID(2), Generation: 1, TTL: entry.Span(time.Minute), Wait: entry.Span(time.Minute),
				}})
			}
			feed(st, v, config(poolID(1), 2, 1))
			feed(st, v, alive(sessionID(2)))
			feed(st, v, client(id))
			earlier := enqueue()
			feed(st, v, marker(key))
			var place uint64
			next := func() {
				switch c.next {
				case ticket:
					place = enqueue()
				case slot:
					claimFor(0, 0)
				}
			}
			if c.voidFirst {
				claimFor(1, earlier)
				next()
			} else {
				next()
				v.Live = !c.catching
				if c.catching {
					st.write(config(poolID(1), 2, 1)) // skipped
				}
				claimFor(1, earlier)
				if c.catching {
					feed(st, v, config(poolID(1), 2, 1))
				}
				v.BecomeLive()
			}
			queued, s := v.EnqueuedIn(v.Pool(poolID(1)), id)
			if (queued != nil) != (c.next == ticket) || queued != nil && queued.Place != place {
				t.Errorf("ticket %+v, want that of place %d", queued, place)
			}
			if s.Serves(queued) != c.serves || c.serves != (s.Value.Ticket == 0) {
				t.Errorf("the slot that names ticket %d serves the session: %t, want %t", s.Value.Ticket, s.Serves(queued), c.serves)
			}
			if c.catching && s.Good() {
				t.Error("a claim that was applied during a catch-up is good")
			}
		})
	}
}

// An enqueued ticket is due when half of its key's life is over. It is written again while it
// stands, and while the session does not know of the slot that it was served with. After that
// it only waits for its purge, which may have been lost: it is garbage, or it would be kept in
// the bucket for as long as the lease is renewed.
func TestTicketOfToldSlotIsGarbage(t *testing.T) {
	const lease = 2 * rules.EnqueuedLife
	for name, c := range map[string]struct {
		claims  []bool // whether each write of the slot is unseen
		garbage bool
	}{
		"in line":      {nil, false},
		"served":       {[]bool{true}, false},
		"told":         {[]bool{false}, true},
		"told at last": {[]bool{true, false}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := newStream(), newView()
			id, peer := sessionID(1), sessionID(2)
			key := rules.EnqueuedKey(poolID(1), id)
			feed(s, v, config(poolID(1), 1, 1))
			feed(s, v, session(peer, entry.SessionPeer, lease))
			feed(s, v, session(id, entry.SessionClient, lease))
			place := feed(s, v, entry.Entry{Key: key, Ticket: entry.TicketValue{
				Lease: leaseID(1), Peer: peer, Generation: 1, TTL: entry.Span(lease), Wait: entry.Span(rules.EnqueuedLife),
			}})
			value := entry.SlotValue{Lease: leaseID(1), Session: id, Claimer: peer, Ticket: place, TTL: entry.Span(lease)}
			for _, unseen := range c.claims {
				value.Unseen = unseen
				value.Fence = feed(s, v, claim(0, value))
			}
			s.now += rules.EnqueuedLife / 2
			due := v.Due(time.Second, 9, s.instant())
			if len(due) != 1 || due[0].Key != key || due[0].Garbage != c.garbage {
				t.Errorf("due: %+v, want the ticket, as garbage: %t", due, c.garbage)
			}
		})
	}
}

// Two peers have claimed for one enqueued ticket. The first claim serves it, and no peer grants the
// second one.
func TestFirstClaimServesEnqueuedTicket(t *testing.T) {
	st, v := newStream(), newView()
	id := sessionID(1)
	feed(st, v, config(poolID(1), 2, 1))
	feed(st, v, alive(sessionID(2)))
	feed(st, v, client(id))
	place := feed(st, v, entry.Entry{Key: rules.EnqueuedKey(poolID(1), id), Ticket: entry.TicketValue{
		Lease: leaseID(1), Peer: sessionID(2), Generation: 1, TTL: entry.Span(time.Minute), Wait: entry.Span(time.Minute),
	}})
	for position := range 2 {
		feed(st, v, claim(position, entry.SlotValue{Lease: leaseID(1), Session: id, Claimer: sessionID(2), Ticket: place, Unseen: true}))
	}
	pool := v.Pool(poolID(1))
	if first, second := pool.Slot(0), pool.Slot(1); !first.Good() || !second.Excluded() {
		t.Errorf("the first claim is good: %t; the second one is excluded: %t", first.Good(), second.Excluded())
	}
}
