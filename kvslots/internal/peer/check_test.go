package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// The stream has lost its last entry, which raised a pool's count. Its last sequence does
// not show that, since another peer has claimed a slot and purged the claim. A new watch
// delivers both entries, or only the second one. The peer claims nothing, and builds its
// view anew: the other peers do not know of the higher count.
func TestNewWatchFindsLostEntry(t *testing.T) {
	for name, first := range map[string]int{"other entry": 0, "no entry": 1} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.hash()
			h.apply(h.storeCount(pool, 0))
			h.pass(4 * time.Second) // the check begins at the last refresh of the presence
			h.auto = false
			lost := h.storeCount(pool, 1)
			h.apply(lost)

			h.last, h.stands[lost.Key] = lost.Revision-1, lost.Previous
			instead := []entry.Entry{h.storeClaim(pool), h.storePurge(pool)}
			h.p.WatchLost(h.watch, h.now)
			call := h.begin(h.borrow(pool, 0))
			for _, e := range instead[first:] {
				h.apply(e)
			}
			h.settle()
			for _, w := range h.sent {
				if w.Key.Kind == entry.Slot {
					t.Fatalf("the peer has claimed position %d", w.Key.N)
				}
			}
			for h.p.Counters().Rebuilds == 0 {
				presence := h.take(entry.Session)
				h.publish(&presence)
			}
			if a, answered := h.answers[call]; answered {
				t.Errorf("answered %+v before the view was built anew", a)
			}
		})
	}
}

// storeCount stores a pool's configuration by another peer.
func (h *harness) storeCount(pool entry.Hash, count int) entry.Entry {
	key := entry.Key{Kind: entry.Config, Pool: pool}
	m := entry.NewMessage(key, entry.ConfigValue{Count: count, Generation: 1}, h.stands[key], 0)
	return h.store(&m)
}
