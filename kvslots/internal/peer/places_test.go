package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// newGhosts returns a function that has n callers of an origin join the line of a full pool, each
// with a request key of its own, and go: their places are kept.
func newGhosts(t *testing.T, cfg peer.Config) (h *harness, holder peer.Borrow, ghosts func(n int, origin entry.Hash)) {
	cfg.ResumeGrace = grace
	h = newHarnessOf(t, cfg)
	holder = h.borrow(h.newPool(1), 0)
	h.must(holder)
	return h, holder, func(n int, origin entry.Hash) {
		t.Helper()
		for range n {
			b := h.borrow(holder.Pool, time.Hour)
			b.Request, b.Origin = h.hash(), origin
			call := h.begin(b)
			h.pass(10 * time.Millisecond)
			h.p.GiveUp(call, peer.ErrPlaceKept, h.now)
			h.pass(10 * time.Millisecond)
		}
	}
}

// The places of clients that have gone counted for none of the limits. Beyond one the oldest of their
// origin go, and those of others stay; all are purged at the end of the grace.
func TestGhostsCount(t *testing.T) {
	for name, cfg := range map[string]peer.Config{
		"of an origin": {MaxPlacesPerOrigin: 10},
		"in all":       {MaxPlaces: 12},
		"of a pool":    {MaxPoolWaiters: 12},
	} {
		t.Run(name, func(t *testing.T) {
			h, holder, ghosts := newGhosts(t, cfg)
			waiting := func() int { return h.inspect(holder.Pool).Waiting }
			first := h.borrow(holder.Pool, time.Hour) // a caller that waits is never dropped
			first.Request, first.Origin = h.hash(), h.hash()
			served := h.begin(first)
			flooder, other := first.Origin, h.hash()
			ghosts(1, other)
			ghosts(50, flooder)
			want := 11
			if cfg.MaxPlacesPerOrigin == 0 {
				want = 12
			}
			if n := waiting(); n != want {
				t.Errorf("%d places after 50 have gone, want %d", n, want)
			}
			if cfg.MaxPlacesPerOrigin > 0 {
				ghosts(1, other)
				if n := waiting(); n != want+1 {
					t.Errorf("%d places with those of another origin, want %d", n, want+1)
				}
			}
			h.pass(grace + time.Second)
			if n := waiting(); n != 1 {
				t.Errorf("%d places after the grace", n)
			}
			h.must(giveBack(holder))
			h.granted(served)
		})
	}
}

// Ghosts delay no honest caller, and a slot is lent to none of them.
func TestGhostsAreNotServed(t *testing.T) {
	h, holder, ghosts := newGhosts(t, peer.Config{})
	ghosts(200, h.hash())
	honest := h.begin(h.borrow(holder.Pool, time.Hour))
	h.must(giveBack(holder))
	h.granted(honest)
	if s := h.inspect(holder.Pool); s.InUse != 1 || s.Waiting == 0 {
		t.Errorf("%+v", s)
	}
}

// The limits hold at a peer that has loaded its view, and do not drop the places of callers whose
// peer's presence is loaded behind their tickets.
func TestPlacesAfterALoad(t *testing.T) {
	cfg := peer.Config{MaxPlacesPerOrigin: 3, ResumeGrace: grace}
	h, holder, ghosts := newGhosts(t, cfg)
	origin := h.hash()
	var waits []uint64
	for range 3 {
		b := h.borrow(holder.Pool, time.Hour)
		b.Request, b.Origin = h.hash(), origin
		waits = append(waits, h.begin(b))
	}
	h.pass(time.Second)
	b := h.join(cfg)
	b.pass(time.Second)
	ghosts(5, origin)
	if s := h.inspect(holder.Pool); s.Waiting != 3 {
		t.Errorf("%+v", s)
	}
	for _, call := range waits {
		if _, answered := h.answers[call]; answered {
			t.Error("a caller that waits was dropped")
		}
	}
}
