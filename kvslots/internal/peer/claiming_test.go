package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// storeBarrier stores a barrier of another peer.
func (h *harness) storeBarrier() entry.Entry {
	m := entry.NewMessage(entry.Key{Kind: entry.Barrier, Session: h.hash()}, entry.BarrierValue{}, 0, rules.Guard)
	return h.store(&m)
}

// A marker that stands when the peer has forgotten it, since the leader's clock was set back,
// made the peer claim its position again every 50 ms, always over revision 0. The view is
// checked, and then believes the server about the marker.
func TestClaimOverForgottenMarker(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	first := h.borrow(pool, 0)
	first.TTL = 10 * time.Second
	h.must(first)
	h.must(giveBack(first))
	h.pass(12 * time.Minute) // the stream never drops a marker
	before := h.p.Counters()
	call := h.begin(h.borrow(pool, time.Second))
	h.pass(2 * time.Second)
	h.granted(call)
	after := h.p.Counters()
	if claims, checks, rebuilds := after.Claims-before.Claims, after.CatchUps-before.CatchUps, after.Rebuilds-before.Rebuilds; claims != 2 || checks != 1 || rebuilds != 0 {
		t.Errorf("%d claims, %d checks and %d rebuilds; want a claim before and after the check", claims, checks, rebuilds)
	}
}

// A claim was written without an answer, and a second copy of it is refused for good. The peer
// answered "unavailable", and left the claim in the stream until its time was over.
func TestClaimWithCopyRefusedForGood(t *testing.T) {
	h, call, claim := newClaim(t)
	pool := claim.Key.Pool
	h.pass(time.Second)
	again := h.take(entry.Slot)
	claimed := h.store(&claim.Message)
	h.ack(again.ID, peer.Never, 0)
	h.settle()
	h.wantError(call, peer.ErrUnavailable)
	h.feed(claimed)
	h.auto = true
	h.pass(time.Second)
	h.must(h.borrow(pool, 0))
}
