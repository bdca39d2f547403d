package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Evict ends the lease that its caller has seen, and no other.
func TestEvict(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	first := h.borrow(pool, 0)
	first.Label = "stuck"
	fence := h.must(first).Grant.Fence
	waiting := h.borrow(pool, time.Hour)
	next := h.begin(waiting)
	h.wantError(h.begin(peer.Evict{Pool: h.hash(), Fence: fence}), peer.ErrNoPool)
	h.wantError(h.begin(peer.Evict{Pool: pool, Position: 1, Fence: fence}), peer.ErrNotHeld)
	h.wantError(h.begin(peer.Evict{Pool: pool, Fence: fence + 1}), peer.ErrOtherHolder)
	if d := h.must(peer.Evict{Pool: pool, Fence: fence}).Detail; len(d.Holders) != 1 || d.Holders[0].Label != "stuck" || d.Holders[0].Fence != fence {
		t.Errorf("ended: %+v", d)
	}
	h.wantError(h.begin(peer.Renew{Held: peer.Held{Pool: pool, Lease: first.Lease}, TTL: time.Hour}), peer.ErrEvicted)
	h.wantError(h.begin(peer.Return{Held: peer.Held{Pool: pool, Lease: first.Lease}}), peer.ErrEvicted)
	h.granted(next)
	h.wantError(h.begin(peer.Evict{Pool: pool, Fence: fence}), peer.ErrOtherHolder)
	h.must(peer.Return{Held: peer.Held{Pool: pool, Lease: waiting.Lease}})
	h.wantError(h.begin(peer.Evict{Pool: pool, Fence: fence}), peer.ErrNotHeld)
}

// The slot that a session has enqueued for can be taken from it before it has called Await.
func TestEvictUnseen(t *testing.T) {
	h := newHarness(t)
	on, session := h.enqueued()
	h.pass(time.Second)
	d := h.must(peer.ReadPool{Pool: on.Pool, MaxHolders: 9, MaxWaiters: 9}).Detail
	if len(d.Holders) != 1 {
		t.Fatalf("held: %+v", d)
	}
	for len(d.Holders) > 0 { // the first may be another session's
		h.must(peer.Evict{Pool: on.Pool, Fence: d.Holders[0].Fence})
		h.pass(time.Second)
		d = h.must(peer.ReadPool{Pool: on.Pool, MaxHolders: 9, MaxWaiters: 9}).Detail
	}
	h.wantError(h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: on.Lock}), peer.ErrNotEnqueued)
}
