package peer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A session's wait ends, so its ticket is purged, while another peer's claim for that ticket is
// on its way. The session enqueues again before the claim reaches the stream, where it is void.
// The next wait took it for the claim of its own ticket, and was answered "not enqueued" when
// the claim was purged.
func TestAwaitBesideVoidClaimOfEarlierEnqueue(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	pool, lease := on.Pool, h.hash()
	ticket := entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
	config := entry.Key{Kind: entry.Config, Pool: pool}
	wait := peer.Await{Pool: pool, Session: session, Lock: true, Wait: time.Second}

	h.must(peer.Enqueue{Resource: on, Session: session, Lease: lease, Nonce: h.hash(), TTL: time.Minute})
	earlier := h.stands[ticket]
	first := h.begin(wait)
	h.pass(2 * time.Second)
	if err := h.answers[first].Err; !errors.Is(err, peer.ErrNoSlot) {
		t.Fatalf("the first wait is answered %v", err)
	}
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Minute})

	h.auto = false
	h.begin(peer.ReleaseOwned{Pool: pool, Owner: "o"})
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	purge := h.take(entry.Slot)
	h.publish(&purge)
	own := h.take(entry.Slot)
	late := entry.NewMessage(purge.Key, entry.SlotValue{
		Lease: lease, Session: session, Claimer: h.hash(), Ticket: earlier, Generation: h.configs[config].Generation,
		TTL: entry.Span(time.Minute), Unseen: true,
	}, h.stands[purge.Key], time.Hour)
	claimed := h.store(&late)
	h.publish(&own)
	h.apply(claimed)

	h.auto = true
	wait.Wait = time.Minute
	second := h.begin(wait)
	h.pass(2 * time.Second)
	if a, answered := h.answers[second]; !answered || a.Err != nil || a.Grant.Fence <= claimed.Revision {
		t.Errorf("answered %t with fence %d, %v; want the slot that the ticket was served with, above %d", answered, a.Grant.Fence, a.Err, claimed.Revision)
	}
}

// A session was served, and its caller knows of the slot, but the purge of its ticket is
// refused, when it is told and again when its lease is over. The slot must not be purged
// before the ticket is: in a view that skipped the slot's purge, the ticket would stand again,
// and would be served twice.
func TestTicketIsPurgedBeforeItsSlot(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: 2 * time.Second})
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})

	h.auto = false
	waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	seen := h.take(entry.Slot)
	h.publish(&seen)
	for range 2 {
		refused := h.take(entry.Ticket)
		h.ack(refused.ID, peer.Never, 0)
		h.settle()
		if err := h.answers[waits].Err; !errors.Is(err, peer.ErrUnavailable) {
			t.Fatalf("the wait is answered %v", err)
		}
		if slices.ContainsFunc(h.sent, func(w peer.Write) bool { return w.Key.Kind == entry.Slot }) {
			t.Fatal("the slot is purged although its ticket was not")
		}
		h.pass(2*time.Second + rules.Slack)
	}
	h.auto = true
	h.pass(2 * time.Second)
	h.must(peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour})
}
