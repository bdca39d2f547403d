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
		skip      bool // the view skips an entry of the pool before the void claim, and so cannot judge it
		want      rules.Status
	}{
		"no next Enqueue":                    {none, true, false, rules.Doubtful},
		"queued":                             {ticket, false, false, rules.Unserved},
		"queued, void claim first":           {ticket, true, false, rules.Unserved},
		"queued, verdict of void claim lost": {ticket, false, true, rules.Unserved},
		"served":                             {slot, false, false, rules.Served},
		"served, void claim first":           {slot, true, false, rules.Served},
	} {
		t.Run(name, func(t *testing.T) {
			st, v := newStream(), rules.New()
			id := sessionID(1)
			key := rules.EnqueuedKey(poolID(1), id)
			claimFor := func(position int, place uint64) {
				feed(st, v, claim(position, entry.SlotValue{Lease: leaseID(1), Session: id, Claimer: sessionID(2), Ticket: place, Unseen: true}))
			}
			enqueue := func() uint64 {
				return feed(st, v, entry.Entry{Key: key, Wait: entry.TicketValue{
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
				if c.skip {
					st.write(claim(0, entry.SlotValue{Lease: leaseID(2), Claimer: sessionID(2)}))
				}
				claimFor(1, earlier)
				if c.skip {
					feed(st, v, marker(rules.SlotKey(poolID(1), 0)))
				}
			}
			e := v.EnqueuedIn(v.Pool(poolID(1)), id, st.instant())
			if c.next == none {
				place = earlier
			}
			if e.Status != c.want || e.Place() != place {
				t.Errorf("status %d at place %d, want %d at %d", e.Status, e.Place(), c.want, place)
			}
			if c.skip && (!v.Exact() || e.Slot.Verdict() != rules.Lost) {
				t.Errorf("exact %t, verdict %d; want a lost verdict in an exact view", v.Exact(), e.Slot.Verdict())
			}
		})
	}
}
