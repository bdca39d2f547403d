package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim was written and then purged by another peer, which thereby took its ticket out
// of the line, and the view has skipped both. All that the claim's peer learns is that a
// second copy of the claim was refused. It must not use the ticket again.
func TestClaimThatMayHaveBeenWrittenUsesUpTicket(t *testing.T) {
	const (
		refused = "the refusal"
		other   = "an entry of another key"
		next    = "the position's next entry"
	)
	for _, order := range [][]string{{refused, other, next}, {refused, next}, {next, refused}, {other, refused}} {
		t.Run(order[0]+", "+order[1], func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(1)
			held := h.borrow(pool, 0)
			h.must(held)
			h.begin(h.borrow(pool, time.Hour))
			h.auto = false
			h.begin(giveBack(held))
			purge := h.take(entry.Slot)
			h.publish(&purge)
			claim := h.take(entry.Slot)
			h.pass(time.Second)
			again := h.take(entry.Slot)

			claimed := h.store(&claim.Message)
			between := h.storeBarrier()
			ended := entry.NewPurge(claim.Key, claimed.Revision, rules.MarkerTTL)
			ended = entry.NewPurge(claim.Key, h.store(&ended).Revision, rules.MarkerTTL)
			after := h.store(&ended)
			for _, step := range order {
				switch step {
				case refused:
					h.ack(again.ID, peer.Conflict, claimed.Revision)
				case other:
					h.apply(between)
				case next:
					h.apply(after)
				}
			}
			h.pass(time.Second)
			h.wantTicketPurged()
		})
	}
}

// A claim was delivered too late to be granted, and another peer has purged it as a lease
// that is over, which took its ticket out of the line. The view has skipped that purge and
// does not show what came after it, when it reaches the revision that refused the claim's
// withdrawal. The claim's peer must not use the ticket again.
func TestSkippedPurgeUsesUpTicket(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	held, waiting := h.borrow(pool, 0), h.borrow(pool, time.Hour)
	waiting.TTL = time.Second
	h.must(held)
	h.begin(waiting)
	h.auto = false
	h.begin(giveBack(held))
	purge := h.take(entry.Slot)
	h.publish(&purge)
	claim := h.take(entry.Slot)
	claimed := h.store(&claim.Message)
	h.now = h.now.Add(3 * time.Second)
	h.apply(claimed)
	withdrawal := h.take(entry.Slot)

	ended := entry.NewPurge(claim.Key, claimed.Revision, rules.MarkerTTL)
	ended.Ticket = claimed.Slot.Ticket
	h.store(&ended)
	h.publish(&withdrawal)
	between := h.storeBarrier()
	after := h.storePurge(pool)
	h.apply(between)
	h.apply(after)
	h.pass(time.Second)
	h.wantTicketPurged()
}

// wantTicketPurged fails the test unless the next write of a ticket purges it.
func (h *harness) wantTicketPurged() {
	h.t.Helper()
	if w := h.take(entry.Ticket); !w.Marker {
		h.t.Errorf("the peer has written %+v, and not purged the ticket", w.Message)
	}
}

// storeBarrier stores a barrier of another peer.
func (h *harness) storeBarrier() entry.Entry {
	m := entry.NewMessage(entry.Key{Kind: entry.Barrier, Session: h.hash()}, entry.BarrierValue{}, 0, rules.Guard)
	return h.store(&m)
}

// A marker that stands when the peer has forgotten it, since the leader's clock was set back,
// made the peer claim its position again every 50 ms, always over revision 0. The view is
// built anew instead, which loads the marker.
func TestClaimOverForgottenMarker(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	first := h.borrow(pool, 0)
	first.TTL = 10 * time.Second
	h.must(first)
	h.must(giveBack(first))
	h.pass(12 * time.Minute) // the stream never drops a marker
	before := h.p.Counters()
	h.begin(h.borrow(pool, time.Second))
	h.pass(2 * time.Second)
	after := h.p.Counters()
	if claims, rebuilds := after.Claims-before.Claims, after.Rebuilds-before.Rebuilds; claims != 2 || rebuilds != 1 {
		t.Errorf("%d claims and %d rebuilds; want a claim before and after the check, and a rebuild", claims, rebuilds)
	}
}

// A claim was written without an answer, and a second copy of it is refused for good. The peer
// answered "unavailable", and left the claim in the stream until its time was over.
func TestClaimWithCopyRefusedForGood(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	call := h.begin(h.borrow(pool, 0))
	claim := h.take(entry.Slot)
	h.pass(time.Second)
	again := h.take(entry.Slot)
	claimed := h.store(&claim.Message)
	h.ack(again.ID, peer.Never, 0)
	h.settle()
	h.wantError(call, peer.ErrUnavailable)
	h.apply(claimed)
	h.auto = true
	h.pass(time.Second)
	h.must(h.borrow(pool, 0))
}
