package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// claimed returns a peer whose claim is in the stream, above other entries that the
// peer has not seen, as many as below says. The claim is not answered or delivered yet.
func claimed(t *testing.T, below int) (h *harness, call uint64, claim peer.Write, others []entry.Entry, own entry.Entry) {
	t.Helper()
	h = newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	call = h.p.Do(h.borrow(pool, 0), h.now)
	claim = h.take(entry.Slot)
	for range below {
		m := entry.NewPurge(rules.SlotKey(h.hash(), 0), 0, rules.MarkerTTL)
		others = append(others, h.store(&m))
	}
	own = h.store(&claim.Message)
	return h, call, claim, others, own
}

// A claim is granted when it is acknowledged, if the view has all entries below it.
func TestOwnWriteIsAppliedWhenAcknowledged(t *testing.T) {
	h, call, claim, _, own := claimed(t, 0)
	h.ack(claim.ID, peer.Written, own.Revision)
	h.settle()
	if g := h.granted(call).Grant; g.Fence != own.Revision {
		t.Errorf("granted with fence %d, want %d", g.Fence, own.Revision)
	}
	if !h.p.Delivered(h.watch, own.Revision, own.Key, own.Time, h.now) {
		t.Error("Delivered does not know the entry")
	}
	if h.p.Delivered(h.watch, own.Revision, own.Key, own.Time, h.now) {
		t.Error("Delivered knows the entry twice")
	}
}

func TestOwnWriteWaitsForWhatIsBelow(t *testing.T) {
	h, call, claim, others, own := claimed(t, 2)
	h.ack(claim.ID, peer.Written, own.Revision)
	for _, e := range others {
		h.settle()
		if a, answered := h.answers[call]; answered {
			t.Fatalf("answered %+v before the view has reached the claim", a)
		}
		if h.p.Delivered(h.watch, e.Revision, e.Key, e.Time, h.now) {
			t.Fatal("Delivered knows another peer's entry")
		}
		h.apply(e)
	}
	h.settle()
	h.granted(call)
}

// The view still accounts for skipped entries by later ones.
func TestOwnWriteThatTheViewHasPassed(t *testing.T) {
	h, call, claim, _, own := claimed(t, 1)
	h.ack(claim.ID, peer.Written, own.Revision)
	h.apply(own) // a jump
	h.settle()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %+v in a view that has skipped an entry", a)
	}
	h.auto = true
	h.settle()
	h.granted(call)
}

// If another entry is delivered at the revision of an acknowledged write, the stream is
// another one.
func TestOwnWriteContradicted(t *testing.T) {
	for name, change := range map[string]func(h *harness, e *entry.Entry){
		"another key":    func(h *harness, e *entry.Entry) { e.Key = rules.SlotKey(h.hash(), 0) },
		"another lease":  func(h *harness, e *entry.Entry) { e.Slot.Lease = h.hash() },
		"over something": func(_ *harness, e *entry.Entry) { e.Previous++ },
		"a marker":       func(_ *harness, e *entry.Entry) { e.Marker, e.Slot = true, entry.SlotValue{} },
	} {
		t.Run(name, func(t *testing.T) {
			h, _, claim, _, own := claimed(t, 0)
			h.ack(claim.ID, peer.Written, own.Revision)
			h.settle()
			other := own
			change(h, &other)
			if other.Key != own.Key && h.p.Delivered(h.watch, other.Revision, other.Key, other.Time, h.now) {
				t.Error("Delivered takes the entry for the acknowledged write")
			}
			h.apply(other)
			if n := h.p.Counters().Rebuilds; n != 1 {
				t.Errorf("the view was built anew %d times, want once", n)
			}
		})
	}
}

// A peer that has not seen its own presence for long does not apply its own writes: its
// watch may be dead.
func TestOwnWriteOfAPeerThatSeesNothing(t *testing.T) {
	h, call, claim, _, own := claimed(t, 0)
	h.now = h.now.Add(7 * time.Second)
	h.ack(claim.ID, peer.Written, own.Revision)
	h.settle()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %+v", a)
	}
}

// An acknowledged write that overwrote less than the view holds shows that the stream is
// another one. Only its delivery is checked for that, so it must not be applied before.
func TestOwnWriteOverLessThanTheViewHolds(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	h.p.Do(h.borrow(pool, 0), h.now)
	claim := h.take(entry.Slot)
	other := claim.Message // of another peer, and lost before the claim is written
	h.apply(h.store(&other))
	h.settle()
	own := h.store(&claim.Message)
	h.ack(claim.ID, peer.Written, own.Revision)
	if h.p.Delivered(h.watch, own.Revision, own.Key, own.Time, h.now) {
		t.Error("the claim was applied before its delivery")
	}
	h.apply(own)
	if n := h.p.Counters().Rebuilds; n != 1 {
		t.Errorf("the view was built anew %d times, want once", n)
	}
}

// A write that is acknowledged after its watch was lost may be in the tail that the stream
// has lost since. The check of the next watch does not cover it, and the entry that came
// in its place may be skipped.
func TestOwnWriteAcknowledgedDuringACheck(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.pass(4 * time.Second) // the check begins at the last refresh of the presence
	h.auto = false
	call := h.p.Do(h.borrow(pool, 0), h.now)
	claim := h.take(entry.Slot)
	h.p.WatchLost(h.watch, h.now)
	h.ack(claim.ID, peer.Written, h.last+1)
	h.settle()
	presence := h.take(entry.Session)
	h.last++ // another entry has the revision of the lost claim
	h.publish(&presence)
	h.settle()
	if err := h.p.Status(h.now); err != nil {
		t.Errorf("after the check: %v", err)
	}
	if a, answered := h.answers[call]; answered {
		t.Errorf("answered %+v", a)
	}
}

// The purge of an own write outlives it by the time that the leader's clock showed, which
// may have been stepped ahead since the peer last read it.
func TestOwnWriteGetsItsTimestamp(t *testing.T) {
	h, call, claim, _, own := claimed(t, 0)
	h.ack(claim.ID, peer.Written, own.Revision)
	h.settle()
	h.granted(call)
	at := own.Time.Add(10 * time.Minute)
	if !h.p.Delivered(h.watch, own.Revision, own.Key, at, h.now) {
		t.Fatal("Delivered does not know the entry")
	}
	h.p.Do(giveBack(peer.Borrow{Pool: own.Key.Pool, Lease: own.Slot.Lease}), h.now)
	purge := h.take(entry.Slot)
	if ends := at.Add(claim.TTL).UnixMilli(); purge.Outlives < ends {
		t.Errorf("the purge outlives values until %d; the claim ends at %d", purge.Outlives, ends)
	}
}
