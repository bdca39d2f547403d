package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// The second caller comes when the claim is under way: the lease may have ended before, so it
// is not answered until the slot is written again.
func TestLateCallerBeginsAnew(t *testing.T) {
	h, key := newKeyed(t)
	h.auto = false
	first := h.begin(h.repeat(key))
	claim := h.take(entry.Slot)
	h.pass(10 * time.Millisecond)
	second := h.begin(h.repeat(key))
	h.publish(&claim)
	h.settle()
	lease := h.granted(first).Grant.Lease
	h.wantNoAnswer(t, second)
	h.auto = true
	h.settle()
	if g := h.granted(second).Grant; g.Lease != lease || !g.Resumed {
		t.Errorf("granted %+v", g)
	}
}

// The caller goes when the claim for its ticket is under way: no slot is lent, and the place is
// kept.
func TestClaimWithoutCallerIsWithdrawn(t *testing.T) {
	h, key := newKeyed(t)
	holder := h.borrow(key.Pool, 0)
	h.must(holder)
	key.Wait = time.Minute
	first := h.begin(h.repeat(key))
	h.auto = false
	h.begin(giveBack(holder))
	purge := h.take(entry.Slot)
	h.publish(&purge)
	claim := h.take(entry.Slot)
	h.p.GiveUp(first, peer.ErrPlaceKept, h.now)
	h.auto = true
	h.publish(&claim)
	h.settle()
	if s := h.inspect(key.Pool); s.InUse != 0 || s.Waiting != 1 {
		t.Fatalf("%+v", s)
	}
	h.must(h.repeat(key))
}

// A call shares the borrow of its key while another one waits. An answer that one of them does
// not get leaves the other one the lease.
func TestSharedAnswerIsTakenBackWhenNoCallerWasTold(t *testing.T) {
	h, key := newKeyed(t)
	holder := h.borrow(key.Pool, 0)
	h.must(holder)
	key.Wait = time.Minute
	calls := [2]uint64{h.begin(h.repeat(key)), h.begin(h.repeat(key))}
	h.must(giveBack(holder))
	for i, call := range calls {
		a := h.granted(call)
		h.p.Untold(&a, peer.ErrPlaceKept, h.now)
		h.settle()
		if s := h.inspect(key.Pool); s.InUse != 1-i {
			t.Errorf("%d callers were not told, and %d slots are in use", i+1, s.InUse)
		}
	}
}

// The answer of a first call is lost after a repeat was told of the lease. It was purged when
// another repeat was not told.
func TestLeaseThatARepeatWasToldOfIsNotTakenBack(t *testing.T) {
	h, key := newKeyed(t)
	first := h.must(h.repeat(key))
	told := h.must(h.repeat(key))
	h.p.Told(&told, h.now)
	h.p.Untold(&first, peer.ErrUnavailable, h.now)
	h.settle()
	again := h.must(h.repeat(key))
	h.p.Untold(&again, peer.ErrUnavailable, h.now)
	h.settle()
	if s := h.inspect(key.Pool); s.InUse != 1 {
		t.Error("the lease was purged")
	}
}

// A call joins a borrow of an earlier one after the pool was deleted and registered anew, which
// the view shows later; the view may show the ticket later, too. The pool has existed, with a free
// slot, since that call came.
func TestCallThatJoinsIsNotRefusedByAnEarlierDeletion(t *testing.T) {
	for name, ticketShown := range map[string]bool{"the ticket is shown": true, "the ticket is on its way": false} {
		t.Run(name, func(t *testing.T) {
			h, key := newKeyed(t)
			h.must(h.borrow(key.Pool, 0))
			key.Wait = time.Minute
			h.paused = !ticketShown
			h.begin(h.repeat(key))
			h.settle()
			h.paused = true
			deleted := h.deleteUnseen(key.Pool)
			m := entry.NewMessage(deleted.Key, entry.ConfigValue{Count: 2, Generation: 7}, deleted.Revision, 0)
			h.feed(deleted)
			h.feed(h.store(&m))
			h.pass(time.Millisecond)
			key.Wait = 50 * time.Millisecond
			call := h.begin(h.repeat(key))
			h.pass(60 * time.Millisecond)
			h.paused = false
			h.deliver()
			h.pass(time.Second)
			h.granted(call)
		})
	}
}
