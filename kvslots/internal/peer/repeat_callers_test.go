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
// not get leaves the other one the lease, whenever their gateway finds out.
func TestSharedAnswerIsTakenBackWhenNoCallerWasTold(t *testing.T) {
	for name, late := range map[string]bool{"before the answer is sent": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			h, key := newKeyed(t)
			holder := h.borrow(key.Pool, 0)
			h.must(holder)
			key.Wait = time.Minute
			calls := [2]uint64{h.begin(h.repeat(key)), h.begin(h.repeat(key))}
			h.must(giveBack(holder))
			for i, call := range calls {
				a := h.granted(call)
				if late {
					h.must(peer.Abandon{Pool: key.Pool, Lease: a.Grant.Lease, Sharers: a.Grant.Sharers})
				} else {
					h.p.Untold(&a, peer.ErrPlaceKept, h.now)
					h.settle()
				}
				if s := h.inspect(key.Pool); s.InUse != 1-i {
					t.Errorf("%d callers were not told, and %d slots are in use", i+1, s.InUse)
				}
			}
		})
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

// A renewal shows that a caller knows of the lease, whether its answer arrives or not.
func TestRenewedLeaseIsNotTakenBack(t *testing.T) {
	h, key := newKeyed(t)
	first := h.must(h.repeat(key))
	renewed := h.must(peer.Renew{Held: peer.Held{Pool: key.Pool, Lease: first.Grant.Lease}, TTL: time.Hour})
	for _, a := range []peer.Answer{renewed, first} {
		h.p.Untold(&a, peer.ErrUnavailable, h.now)
		h.settle()
	}
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

// The calls of one request at two gateways are not told of the lease: its client has died. No
// caller knows of the lease, so it must not stay for its ttl. If the repeat was told, it stays.
func TestLeaseOfCallersThatHaveGoneAtTwoPeers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first bool // the claim's caller goes before the repeat's write
		told  bool // the repeat is answered
		asks  bool // the claim's caller is abandoned by a request
	}{
		{name: "the claim's caller goes first", first: true},
		{name: "the repeat's caller goes first"},
		{name: "the gateway finds out later, before", first: true, asks: true},
		{name: "the gateway finds out later, after", asks: true},
		{name: "the repeat is told, after", first: true, told: true},
		{name: "the repeat is told, before", told: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b, key := newKeyedTwice(t)
			first := a.must(a.repeat(key))
			gone := func() {
				a.auto = false
				if tc.asks {
					a.begin(peer.Abandon{Pool: key.Pool, Lease: first.Grant.Lease, Sharers: first.Grant.Sharers})
				} else {
					a.p.Untold(&first, peer.ErrUnavailable, a.now)
				}
				a.settle()
			}
			b.auto = false
			call := b.begin(b.repeat(key))
			again := b.take(entry.Slot)
			if tc.first {
				gone() // its purge comes after the other peer's write
			}
			if !tc.told {
				b.p.GiveUp(call, peer.ErrPlaceKept, b.now)
			}
			b.publish(&again)
			b.auto = true
			b.settle()
			if !tc.first {
				gone()
			}
			a.auto = true
			a.settle()
			a.pass(time.Second)
			want := 0
			if tc.told {
				b.granted(call)
				want = 1
			}
			if s := b.inspect(key.Pool); s.InUse != want {
				t.Errorf("%d slots are in use, want %d", s.InUse, want)
			}
		})
	}
}
