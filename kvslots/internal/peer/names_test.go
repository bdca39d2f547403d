package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// One peer closes an idle name. If it does not, the other peers do so 10 s later.
func TestIdleNameIsClosedByAnother(t *testing.T) {
	h := newHarness(t)
	h.addPeers(16, time.Hour)
	pool := h.hash()
	h.must(peer.Acquire{
		Resource: peer.Resource{Pool: pool, Name: "a", Lock: true, Limit: 1},
		Lease:    h.hash(), Owner: "o", TTL: time.Minute,
	})
	config := entry.Key{Kind: entry.Config, Pool: pool}
	opened := h.stands[config]
	h.must(peer.ReleaseOwned{Pool: pool, Owner: "o"})
	h.pass(69 * time.Second)
	if h.stands[config] != opened {
		t.Error("a peer that does not come first closed the name")
	}
	h.pass(3 * time.Second)
	if h.stands[config] == opened {
		t.Error("the name was not closed")
	}
}
