package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A renewal, a return and a reading of a lease say why it has ended, also when its pool
// is not in use any more. A lease that its holder has returned is not held, and no more.
func TestCauseOfEnd(t *testing.T) {
	h := newHarness(t)
	pool, session := h.newPool(1), h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	b := h.borrow(pool, 0)
	on := peer.Resource{Pool: h.hash(), Name: "n", Lock: true, Limit: 1}
	a := peer.Acquire{Resource: on, Session: session, Lease: h.hash(), TTL: time.Minute}
	b.TTL = time.Minute
	h.must(b)
	h.must(a)
	held := []peer.Held{{Pool: pool, Lease: b.Lease}, {Pool: on.Pool, Lease: a.Lease, Session: session, Named: true, Lock: true}}
	wantEach := func(want error) {
		t.Helper()
		for _, held := range held {
			h.wantError(h.begin(peer.Renew{Held: held, TTL: time.Minute}), want)
			h.wantError(h.begin(peer.Return{Held: held}), want)
			h.wantError(h.begin(peer.ReadLease{Held: held}), want)
		}
	}
	h.pass(2 * time.Minute)
	wantEach(peer.ErrExpired)
	h.pass(5 * time.Minute) // the name is closed
	wantEach(peer.ErrExpired)

	b.Lease, a.Lease = h.hash(), h.hash()
	held[0].Lease, held[1].Lease = b.Lease, a.Lease
	h.must(b)
	h.must(a)
	for _, held := range held {
		h.must(peer.Return{Held: held})
	}
	wantEach(peer.ErrNotHeld)
}

// The causes of the last leases are remembered, however many have ended.
func TestCausesAreBounded(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1000)
	var leases []entry.Hash
	for range 5 {
		for range 1000 {
			b := h.borrow(pool, 0)
			b.TTL = time.Second
			h.must(b)
			leases = append(leases, b.Lease)
		}
		h.pass(10 * time.Second)
	}
	for i, lease := range leases {
		want := peer.ErrExpired
		if i < 1000 {
			continue // the first of the last 4096 are among these
		}
		h.wantError(h.begin(peer.Return{Held: peer.Held{Pool: pool, Lease: lease}}), want)
	}
	first := h.answers[h.begin(peer.Return{Held: peer.Held{Pool: pool, Lease: leases[0]}})]
	if first.Err != peer.ErrNotHeld {
		t.Errorf("the oldest one: %v", first.Err)
	}
}
