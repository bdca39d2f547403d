package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A peer closes a name that has been idle for a minute.
func TestIdleNameIsClosed(t *testing.T) {
	h := newHarness(t)
	pool := h.hash()
	h.must(peer.Acquire{
		Resource: peer.Resource{Pool: pool, Name: "a", Lock: true, Limit: 1},
		Lease:    h.hash(), Owner: "o", TTL: time.Minute,
	})
	config := entry.Key{Kind: entry.Config, Pool: pool}
	opened := h.stands[config]
	h.must(peer.ReleaseOwned{Pool: pool, Owner: "o"})
	h.pass(59 * time.Second)
	if h.stands[config] != opened {
		t.Error("the name was closed early")
	}
	h.pass(3 * time.Second)
	if h.stands[config] == opened {
		t.Error("the name was not closed")
	}
}
