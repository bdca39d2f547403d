package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// ownedLock returns a lock that owner "o" holds for an hour, and a session.
func (h *harness) ownedLock() (on peer.Resource, session entry.Hash) {
	on = peer.Resource{Pool: h.hash(), Name: "a", Lock: true, Limit: 1}
	session = h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	h.must(peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour})
	return on, session
}

// enqueued is ownedLock, for which the session has enqueued.
func (h *harness) enqueued() (on peer.Resource, session entry.Hash) {
	on, session = h.ownedLock()
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour})
	return on, session
}

// The ticket of an Enqueue was written, without an answer, and another peer has served
// it. The view has skipped the ticket's first entry when the peer learns that a second
// copy was refused. It may not join the line meanwhile, since it is purging the slot.
// Afterwards it must not write another ticket over its own: the session would be served
// twice.
func TestRefusedTicketMayHaveBeenWritten(t *testing.T) {
	for _, spent := range []bool{false, true} {
		h := newHarness(t)
		on, session := h.ownedLock()
		h.auto = false
		enqueued := h.begin(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Minute})
		barrier := h.take(entry.Barrier)
		h.publish(&barrier)
		ticket := h.take(entry.Ticket)
		h.begin(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
		barrier = h.take(entry.Barrier)
		h.publish(&barrier)
		purge := h.take(entry.Slot)
		h.pass(time.Second)
		again := h.take(entry.Ticket)

		written := h.store(&ticket.Message)
		other := entry.NewMessage(entry.Key{Kind: entry.Barrier, Session: h.hash()}, entry.BarrierValue{}, 0, rules.Guard)
		between := h.store(&other)
		value := written.Ticket
		value.Place, value.Spent = written.Revision, spent
		rewrite := entry.NewMessage(ticket.Key, value, written.Revision, rules.EnqueuedLife+rules.Guard)
		after := h.store(&rewrite)

		h.ack(again.ID, peer.Conflict, written.Revision)
		h.feed(between)
		h.settle()
		if a, answered := h.answers[enqueued]; answered {
			t.Fatalf("answered %+v before the view shows the ticket", a)
		}
		h.feed(after)
		h.auto = true
		h.publish(&purge)
		h.settle()
		h.pass(time.Second)
		if a := h.granted(enqueued); !a.Queued {
			t.Errorf("answered %+v, want queued", a)
		}
		if h.stands[ticket.Key] != after.Revision {
			t.Error("the peer has written another ticket")
		}
		waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
		if a := h.answers[waits]; errors.Is(a.Err, peer.ErrLeaseExpired) != spent || !spent && a.Grant.Fence == 0 {
			t.Errorf("spent %t: await is answered %+v", spent, a)
		}
	}
}

// Another peer takes this one for dead while the ticket of an Enqueue is on its way. The
// ticket does not end with the peer's presence. The peer regarded it as lost, found it when
// it decided again, and answered "already enqueued".
func TestEnqueuedTicketOutlivesPresence(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	h.auto = false
	enqueued := h.begin(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Minute})
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	ticket := h.take(entry.Ticket)
	value := h.entry(&ticket.Message, 0).Ticket
	presence := rules.SessionKey(value.Peer)
	ended := entry.NewPurge(presence, h.stands[presence], rules.MarkerTTL)
	h.feed(h.store(&ended))
	h.feed(h.store(&ticket.Message))
	h.auto = true
	h.pass(time.Second)
	if a := h.granted(enqueued); !a.Queued {
		t.Errorf("answered %+v, want queued", a)
	}
}

// A lease of which its session was not told lasted for a second longer than its ttl: a wait
// after 1.6 s was still granted one of 1 s.
func TestUnseenLeaseEndsInTime(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Second})
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	h.pass(1600 * time.Millisecond)
	h.wantError(h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute}), peer.ErrLeaseExpired)
}

// The answer to an Enqueue that is granted a lease at once waits for a flush, so that the
// lease ends later than its ttl after the claim. A wait before that end is granted it again.
func TestLeaseToldLateIsGrantedToWait(t *testing.T) {
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Minute})
	on := peer.Resource{Pool: h.hash(), Name: "n", Lock: true, Limit: 1}
	a := h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: 2 * time.Second})
	h.pass(900 * time.Millisecond)
	h.p.Told(&a, h.now)
	h.settle()
	h.pass(1500 * time.Millisecond)
	if left := a.Grant.At.Add(a.Grant.TTL).Sub(h.now); left != 500*time.Millisecond {
		t.Fatalf("the lease lasts for %v more", left)
	}
	h.must(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
}

// Another peer writes a ticket again at the moment at which this one marks it as spent, since the lease of its
// session is over. Had the slot been purged then, the ticket would have stood again, and its session would have
// been lent the slot a second time.
func TestTicketIsSpentBeforeItsSlotIsFree(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Second})
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	h.auto = false
	h.pass(2 * time.Second)
	spent, claims := h.take(entry.Ticket), h.p.Counters().Claims
	value := h.entry(&spent.Message, 0).Ticket
	value.Spent = false
	again := entry.NewMessage(spent.Key, value, spent.Revision, rules.EnqueuedLife+rules.Guard)
	h.feed(h.store(&again))
	h.publishAll()
	h.auto = true
	h.pass(2 * time.Second)
	h.wantError(h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute}), peer.ErrLeaseExpired)
	if n := h.p.Counters().Claims - claims; n != 0 {
		t.Errorf("%d further claims", n)
	}
}

// Two calls of an Enqueue with a request key were decided at once: one was granted a slot, and the other joined the
// line. Its ticket's turn came, and its peer claimed for it and withdrew the void claim again and again, every 5 ms.
func TestEnqueueIsRepeatedAtOnce(t *testing.T) {
	h := newHarness(t)
	session, owner := h.hash(), h.hash()
	on := peer.Resource{Pool: h.hash(), Name: "s", Limit: 2}
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	h.must(peer.CreateSession{Session: owner, Idle: time.Hour})
	held := peer.Acquire{Resource: on, Session: owner, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour}
	h.must(held)
	h.auto = false
	enqueue := peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Minute, Request: h.hash()}
	granted := h.p.Do(enqueue, h.now)
	enqueue.Lease, enqueue.Nonce = h.hash(), h.hash()
	queued := h.p.Do(enqueue, h.now)
	h.auto = true
	h.settle()
	h.pass(time.Second)
	if g, q := h.granted(granted), h.granted(queued); g.Grant.Fence == 0 || !q.Queued {
		t.Fatalf("answered %+v and %+v, want a lease and a place", g, q)
	}
	claims := h.p.Counters().Claims
	h.must(peer.Return{Held: peer.Held{Pool: on.Pool, Session: owner, Lease: held.Lease}})
	h.pass(time.Second)
	if n := h.p.Counters().Claims - claims; n != 0 {
		t.Errorf("%d claims for a session that has a slot", n)
	}
	if key := rules.EnqueuedKey(on.Pool, session); !h.stream[len(h.stream)-1].Marker {
		t.Errorf("the ticket %v is still in the line", key)
	}
	h.must(peer.Await{Pool: on.Pool, Session: session, Wait: time.Minute})
}
