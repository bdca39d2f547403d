package rules_test

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

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
