package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Each condition of a good claim is violated alone.
func TestClaimed(t *testing.T) {
	waiting := ticket(ticketKey(poolID(1), sessionID(1), 1), leaseID(8), 1)
	spent := waiting
	spent.Ticket.Spent = true
	out := config(poolID(1), 2, 1)
	out.Config.Out = []entry.Out{{Position: 0}}
	keyed := claim(0, entry.SlotValue{Lease: leaseID(9), Request: requestID(1)})
	const place = 4 // of the first entry in before
	for name, c := range map[string]struct {
		before         []entry.Entry // in a pool of two slots
		position       int
		value          entry.SlotValue
		excluded, good bool
	}{
		"good":                                {good: true},
		"another generation":                  {value: entry.SlotValue{Generation: 2}, excluded: true},
		"its session has ended":               {value: entry.SlotValue{Session: sessionID(3)}, excluded: true},
		"its position is above the count":     {[]entry.Entry{claim(0, entry.SlotValue{}), config(poolID(1), 1, 1), marker(rules.SlotKey(poolID(1), 0))}, 1, entry.SlotValue{}, true, false},
		"its position is out of service":      {before: []entry.Entry{out}, excluded: true},
		"its ticket is not in line":           {value: entry.SlotValue{Ticket: 1}, excluded: true},
		"its ticket was spent":                {before: []entry.Entry{spent}, value: entry.SlotValue{Ticket: place}, excluded: true},
		"its ticket was served":               {[]entry.Entry{waiting, claim(0, entry.SlotValue{Ticket: place})}, 1, entry.SlotValue{Ticket: place}, true, false},
		"another slot has its key":            {[]entry.Entry{keyed}, 1, entry.SlotValue{Request: requestID(1)}, true, false},
		"too many slots are live":             {before: []entry.Entry{claim(1, entry.SlotValue{}), config(poolID(1), 1, 1)}},
		"an earlier ticket takes the permit":  {before: []entry.Entry{waiting, config(poolID(1), 1, 1)}},
		"a lower position is free":            {position: 1},
		"a lower one, for an earlier ticket":  {[]entry.Entry{waiting}, 1, entry.SlotValue{}, false, true},
		"a lower position is out of service":  {[]entry.Entry{out}, 1, entry.SlotValue{}, false, true},
		"its ticket is the first one in line": {before: []entry.Entry{waiting}, value: entry.SlotValue{Ticket: place}, good: true},
	} {
		s, v := newStream(), newView()
		for _, e := range []entry.Entry{config(poolID(1), 2, 1), alive(sessionID(1)), client(sessionID(2))} {
			feed(s, v, e)
		}
		for _, e := range c.before {
			feed(s, v, e)
		}
		c.value.Lease = leaseID(1)
		feed(s, v, claim(c.position, c.value))
		x := v.Pool(poolID(1)).Slot(c.position)
		if x.Excluded() != c.excluded || x.Good() != c.good {
			t.Errorf("%s: excluded %t, good %t", name, x.Excluded(), x.Good())
		}
	}
}

// A repeat is answered with the lease of its key, not with a claim beside it, in either position.
func TestRequestedPrefersTheLease(t *testing.T) {
	for lease := range 2 {
		s, v := newStream(), newView()
		feed(s, v, config(poolID(1), 2, 1))
		feed(s, v, claim(lease, entry.SlotValue{Lease: leaseID(1), Request: requestID(1)}))
		feed(s, v, claim(lease, entry.SlotValue{Lease: leaseID(1), Request: requestID(1), Fence: 1})) // renewed
		feed(s, v, claim(1-lease, entry.SlotValue{Lease: leaseID(2), Request: requestID(1), TTL: entry.Span(time.Minute)}))
		if x := v.Pool(poolID(1)).Requested(requestID(1)); x.Position != lease {
			t.Errorf("found the claim at %d, not the lease at %d", x.Position, lease)
		}
	}
}
