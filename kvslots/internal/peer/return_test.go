package peer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A session that holds a lock has enqueued for it again. The return of its lease does not take
// that ticket out of the line.
func TestReturnKeepsTicketOfLaterEnqueue(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	held := peer.Held{Pool: on.Pool, Lease: h.hash(), Session: session, Named: true, Lock: true}
	await := peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute}
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: held.Lease, Nonce: h.hash(), TTL: time.Hour})
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	held.Fence = h.must(await).Grant.Fence
	if a := h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour}); !a.Queued {
		t.Fatalf("answered %+v, want queued", a)
	}
	h.must(peer.Return{Held: held})
	h.must(await)
}

// The stream has lost the purge of the ticket that a lease was granted for. The lease is
// returned, or renewed too late. In a view that skips the slot's purge the ticket would stand
// again, so it must be out of the line before. A call that is answered by then writes nothing more.
func TestTicketThatCameBackIsPurgedBeforeItsSlot(t *testing.T) {
	for _, test := range []struct{ renews, answered bool }{{false, false}, {true, false}, {false, true}} {
		h, ttl := newHarness(t), time.Hour
		if test.renews {
			ttl = 2 * time.Second
		}
		on, session := h.ownedLock()
		held := peer.Held{Pool: on.Pool, Lease: h.hash(), Session: session, Named: true, Lock: true}
		h.must(peer.Enqueue{Resource: on, Session: session, Lease: held.Lease, Nonce: h.hash(), TTL: ttl})
		h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
		h.auto = false
		h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
		barrier := h.take(entry.Barrier)
		h.publish(&barrier)
		mark := h.take(entry.Slot)
		marked := h.store(&mark.Message)
		held.Fence = marked.Fence()
		h.fed(marked)
		h.take(entry.Ticket) // as if it were lost
		var r peer.Request = peer.Return{Held: held}
		if test.renews {
			h.now = h.now.Add(ttl + 2*rules.Slack)
			r = peer.Renew{Held: held, TTL: time.Hour}
		}
		call := h.begin(r)
		for _, w := range h.sent {
			if w.Key.Kind == entry.Slot {
				t.Errorf("%+v: the slot is purged before its ticket", test)
			}
		}
		purge := h.take(entry.Ticket)
		if !test.answered {
			h.publish(&purge)
			h.take(entry.Slot)
			continue
		}
		h.p.GiveUp(call, peer.ErrUnavailable, h.now)
		h.publish(&purge)
		h.wantNoWrite(entry.Slot)
	}
}

// A borrow has waited. Its lease is returned while the purge of its ticket is under way, and the
// purge of the slot does not wait for that.
func TestReturnFollowsPurgeOfBorrowsTicket(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	holder, waiter := h.borrow(pool, 0), h.borrow(pool, time.Minute)
	h.must(holder)
	waiting := h.begin(waiter)
	h.auto = false
	h.begin(giveBack(holder))
	for range 2 { // the holder's purge, and the waiter's claim
		w := h.take(entry.Slot)
		h.publish(&w)
	}
	h.settle()
	h.granted(waiting)
	returning := h.begin(giveBack(waiter))
	var kinds []entry.Kind
	for _, w := range h.sent {
		kinds = append(kinds, w.Key.Kind)
	}
	if !slices.Equal(kinds, []entry.Kind{entry.Ticket, entry.Slot}) {
		t.Fatalf("the writes sent have the kinds %v, want the purges of the ticket and of the slot", kinds)
	}
	h.publishAll()
	h.granted(returning)
}

// The marker of a slot tells the fence of the lease that was there to a peer that loads the
// bucket.
func TestMarkerRemembersFence(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	fence := h.must(b).Grant.Fence
	h.must(giveBack(b))
	if e := h.stream[len(h.stream)-1]; !e.Marker || e.Fenced != fence {
		t.Errorf("the purge of a lease with fence %d names %d", fence, e.Fenced)
	}
}

// An Abandon comes while its peer has no live view. No client knows of the lease, so the peer purges it
// when the view is live again.
func TestAbandonGoesOnAfterItsAnswer(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	granted := h.must(b).Grant
	h.manual = true
	h.breakFeed()
	h.must(peer.Abandon{Pool: b.Pool, Lease: b.Lease, Sharers: granted.Sharers})
	h.pass(6 * time.Second)
	h.manual = false
	h.breakFeed()
	h.pass(time.Second)
	h.wantLive()
	h.must(h.borrow(b.Pool, 0))
}
