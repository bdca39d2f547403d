package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// lastOf returns the last entry of a key in the stream.
func (h *harness) lastOf(key entry.Key) (last entry.Entry) {
	for _, e := range h.stream {
		if e.Key == key {
			last = e
		}
	}
	return last
}

// A deleted pool leaves a marker for minutes: for longer if slots have been lent that might
// come back with the pool.
func TestDeletedPoolLeavesMarker(t *testing.T) {
	h := newHarness(t)
	unused, used, lent := h.newPool(1), h.newPool(1), h.newPool(1)
	b := h.borrow(used, 0)
	h.must(b)
	h.must(giveBack(b))
	h.must(h.borrow(lent, 0)) // for an hour
	for pool, want := range map[entry.Hash]time.Duration{unused: rules.Guard + rules.MarkerTTL, used: rules.Guard + rules.MarkerTTL, lent: time.Hour + rules.Guard} {
		h.must(peer.Delete{Pool: pool})
		if e := h.lastOf(rules.ConfigKey(pool)); !e.Marker || e.TTL < want || e.TTL > want+time.Minute {
			t.Errorf("the configuration has the entry %+v with a ttl of %v, want a marker of %v", e, e.TTL, want)
		}
	}
}

// Pools, names and sessions that have ended count for their origin.
func TestTombstonesOfOrigin(t *testing.T) {
	const most = 8
	h := newHarnessOf(t, peer.Config{MaxTombstones: most})
	flooder, other := h.hash(), h.hash()
	register := func(origin entry.Hash) (pool entry.Hash, err error) {
		pool = h.hash()
		id := h.begin(peer.Register{Pool: pool, Count: 1, Origin: origin})
		h.settle()
		return pool, h.answers[id].Err
	}
	for n := range most / 2 {
		pool, err := register(flooder)
		if err != nil {
			t.Fatalf("after %d deletions: %v", n, err)
		}
		h.must(peer.Delete{Pool: pool})
	}
	if _, err := register(flooder); err != peer.ErrMaxTombstones {
		t.Errorf("a pool: %v", err)
	}
	h.wantError(h.begin(peer.CreateSession{Session: h.hash(), Idle: time.Minute, Origin: flooder}), peer.ErrMaxTombstones)
	name := peer.Resource{Pool: h.hash(), Dialect: "d", Name: "n", Lock: true, Limit: 1}
	h.wantError(h.begin(peer.Acquire{Resource: name, Lease: h.hash(), Owner: "o", Origin: flooder, TTL: time.Minute}), peer.ErrMaxTombstones)
	if _, err := register(other); err != nil {
		t.Errorf("another origin: %v", err)
	}
	h.must(peer.Acquire{Resource: name, Lease: h.hash(), Owner: "o", Origin: other, TTL: time.Minute})
	h.pass(rules.Guard + rules.MarkerTTL + 20*time.Second)
	if _, err := register(flooder); err != nil {
		t.Errorf("when the markers are gone: %v", err)
	}
}

// The markers name the origin, so a peer that loads the bucket counts them as well.
func TestTombstonesAfterALoad(t *testing.T) {
	const most = 8
	h := newHarnessOf(t, peer.Config{MaxTombstones: most})
	flooder := h.hash()
	b := peer.Register{Pool: h.hash(), Count: 1, Origin: flooder}
	h.must(b)
	borrowed := h.borrow(b.Pool, 0)
	h.must(borrowed)
	h.must(giveBack(borrowed))
	h.must(peer.Delete{Pool: b.Pool}) // 2 keys
	for range 2 {
		session := peer.CreateSession{Session: h.hash(), Idle: time.Minute, Origin: flooder}
		h.must(session)
		h.must(peer.EndSession{Session: session.Session})
	}
	again := startHarness(t, peer.Config{MaxTombstones: most})
	again.stream, again.last, again.stands = h.stream, h.last, h.stands
	again.catchUp()
	again.wantError(again.begin(peer.Register{Pool: h.hash(), Count: 1, Origin: flooder}), peer.ErrMaxTombstones)
	again.must(peer.Register{Pool: h.hash(), Count: 1, Origin: h.hash()})
}
