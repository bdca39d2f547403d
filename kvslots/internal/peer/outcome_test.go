package peer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// wantNoWrite fails the test if the peer writes to a key of a kind.
func (h *harness) wantNoWrite(kind entry.Kind) {
	h.t.Helper()
	h.settle()
	if i := slices.IndexFunc(h.sent, func(w peer.Write) bool { return w.Key.Kind == kind }); i >= 0 {
		h.t.Fatalf("the peer writes %+v", h.sent[i].Message)
	}
}

// A claim or a ticket that is not settled in time is fenced off by a purge. If the stream has
// stored it all the same, it is purged.
func TestUnknownOutcomeIsFencedOff(t *testing.T) {
	for _, kind := range []entry.Kind{entry.Slot, entry.Ticket} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, stored late %t", kind, late), func(t *testing.T) {
				h := newHarness(t)
				pool := h.newPool(1)
				if kind == entry.Ticket {
					h.must(h.borrow(pool, 0))
				}
				h.auto = false
				call := h.begin(h.borrow(pool, time.Hour))
				w := h.take(kind)
				h.passWithout(w.Key, 5100*time.Millisecond)
				h.wantError(call, peer.ErrUnavailable)
				h.pass(600 * time.Millisecond)
				fence := h.take(kind)
				if !fence.Marker || fence.Revision != w.Revision || fence.TTL <= w.TTL {
					t.Errorf("the peer has written %+v, and not fenced off %+v", fence.Message, w.Message)
				}
				if late {
					h.feed(h.store(&w.Message))
				}
				h.auto = true
				h.publish(&fence)
				h.pass(time.Second)
				for _, e := range h.stream {
					if e.Revision == h.stands[w.Key] && !e.Marker {
						t.Error("it stands")
					}
				}
			})
		}
	}
}

// The ticket of a borrow whose caller is gone leaves the line after the claim for it: other
// peers take a claim whose ticket has left the line for one that was granted.
func TestTicketLeavesAfterClaim(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	h.must(b)
	waits := h.begin(h.borrow(b.Pool, time.Hour))
	h.auto = false
	h.begin(giveBack(b))
	purge := h.take(entry.Slot)
	h.publish(&purge)
	claim := h.take(entry.Slot)
	h.p.GiveUp(waits, errors.New("the caller is gone"), h.now)
	h.wantNoWrite(entry.Ticket)
	h.publish(&claim)
	withdrawn := h.take(entry.Slot)
	h.wantNoWrite(entry.Ticket)
	h.publish(&withdrawn)
	if left := h.take(entry.Ticket); !withdrawn.Marker || !left.Marker {
		t.Errorf("the peer has written %+v and %+v", withdrawn.Message, left.Message)
	}
}

// While the view is caught up, a write is not sent again.
func TestNoWriteDuringCatchUp(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	h.begin(h.borrow(pool, 0))
	h.take(entry.Slot)
	h.manual = true
	h.breakFeed()
	h.pass(2 * time.Second)
	h.wantNoWrite(entry.Slot)
	h.beginReading()
	h.readAll()
	h.catchUp()
	h.take(entry.Slot)
}

// A deposed leader of a replicated stream may refuse a write that the stream takes. Such a
// refusal has the view checked, but not built anew at once.
func TestStaleRefusals(t *testing.T) {
	for replicas, rebuilds := range map[int]uint64{1: 1, 3: 0} {
		h := startHarness(t, peer.Config{})
		h.replicas = replicas
		b := h.borrow(h.newPool(1), 0)
		h.must(b)
		h.auto = false
		h.begin(giveBack(b))
		for range 2 {
			purge := h.take(entry.Slot)
			h.ack(purge.ID, peer.Conflict, purge.Revision-1)
			if n := h.p.Counters(); n.CatchUps == 0 {
				t.Fatal("the view was not checked")
			}
			h.settle()
			h.catchUp()
			h.pass(150 * time.Millisecond)
		}
		if n := h.p.Counters().Rebuilds; n != rebuilds {
			t.Errorf("%d replicas: built anew %d times, want %d", replicas, n, rebuilds)
		}
	}
}

// A reading that delivers nothing is begun anew.
func TestQuietReading(t *testing.T) {
	h, _, _ := loading(t)
	h.pass(2399 * time.Millisecond)
	h.wantReading(1)
	h.pass(time.Millisecond)
	h.wantReading(2)
}

// A replica that is behind delivers an entry that was overwritten before an earlier reading
// came to it. The view is of this stream all the same.
func TestReplicaDeliversWhatWasOverwritten(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto, h.manual = false, true
	claim, purge := h.storeClaim(pool), h.storePurge(pool)
	h.breakFeed()
	h.beginReading()
	h.read(purge)
	h.breakFeed()
	h.beginReading()
	h.read(claim)
	h.readAll()
	h.catchUp()
	if n := h.p.Counters().Rebuilds; n != 0 {
		t.Errorf("the view was built anew %d times", n)
	}
}
