package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// One peer closes an idle name. If it does not, the other peers do so 10 s later.
func TestIdleNameIsClosedByAnother(t *testing.T) {
	h := newHarness(t)
	for range 16 { // peers that are alive and do nothing: one of them comes first
		alive := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Hour)}
		m := entry.NewMessage(rules.SessionKey(h.hash()), alive, 0, time.Hour)
		h.apply(h.store(&m))
	}
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
