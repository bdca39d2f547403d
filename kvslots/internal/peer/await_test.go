package peer_test

import (
	"context"
	"errors"
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
	h.feed(claimed)

	h.auto = true
	wait.Wait = time.Minute
	second := h.begin(wait)
	h.pass(2 * time.Second)
	if a, answered := h.answers[second]; !answered || a.Err != nil || a.Grant.Fence <= claimed.Revision {
		t.Errorf("answered %t with fence %d, %v; want the slot that the ticket was served with, above %d", answered, a.Grant.Fence, a.Err, claimed.Revision)
	}
}

// A session was served and has marked its slot as seen, but each purge of its ticket is
// refused, then and when its lease is over. The slot must not be purged before the ticket is: in a view that skipped the slot's purge, the ticket would stand again,
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
	for end := h.now.Add(2*time.Second + 2*rules.Slack); h.now < end; h.pass(10 * time.Millisecond) {
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			switch w.Key.Kind {
			case entry.Ticket:
				h.ack(w.ID, peer.Never, 0)
			case entry.Slot:
				t.Fatal("the slot is purged although its ticket was not")
			}
		}
	}
	h.granted(waits)
	h.auto = true
	h.pass(2 * time.Second)
	h.must(peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour})
}

// A session is served, and its wait is answered "unavailable". If the wait has marked the slot, no caller knows
// of it, so the peer has to free it: the session cannot, and the lease would last for an hour. Otherwise the
// slot is there for the next wait.
func TestSlotOfUnansweredAwaitIsFreed(t *testing.T) {
	for name, fail := range map[string]func(h *harness, mark peer.Write) (late *peer.Write){
		"the mark is written when the call is answered": func(h *harness, mark peer.Write) *peer.Write {
			h.passWithout(mark.Key, 6*time.Second)
			return &mark
		},
		"the mark is not written": func(h *harness, mark peer.Write) *peer.Write {
			h.passWithout(mark.Key, 6*time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			on, session := h.enqueued()
			h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
			h.auto = false
			waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
			barrier := h.take(entry.Barrier)
			h.publish(&barrier)
			late := fail(h, h.take(entry.Slot))
			h.settle()
			h.wantError(waits, peer.ErrUnavailable)
			if late != nil {
				e := h.store(&late.Message)
				h.pass(10 * time.Millisecond)
				h.feed(e)
			}
			h.auto = true
			h.pass(2 * time.Second)
			again := peer.Await{Pool: on.Pool, Session: session, Lock: true}
			if late == nil {
				h.must(again)
				return
			}
			h.must(peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour})
			h.wantError(h.begin(again), peer.ErrNotEnqueued)
		})
	}
}

// Await restarts the time that was asked for, also of a lease that a repeat of its Enqueue has
// written again, and shortens none that was renewed for longer.
func TestAwaitRestartsTheWholeTime(t *testing.T) {
	for name, renewed := range map[string]time.Duration{"repeated": 0, "renewed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			on, session := h.ownedLock()
			h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
			asks := peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), Request: h.hash(), TTL: time.Minute}
			fence, held := h.must(asks).Grant.Fence, asks.Lease
			h.pass(40 * time.Second)
			want := time.Minute
			if renewed > 0 {
				h.must(peer.Renew{Held: peer.Held{Pool: on.Pool, Lease: held, Session: session, Named: true, Lock: true, Fence: fence}, TTL: renewed})
				want = renewed
			}
			asks.Lease = h.hash()
			h.must(asks)
			if g := h.must(peer.Await{Pool: on.Pool, Session: session, Lock: true}).Grant; g.TTL < want-time.Millisecond {
				t.Errorf("granted for %s, want %s", g.TTL, want)
			}
			h.pass(time.Minute - time.Second)
			if s := h.inspect(on.Pool); s.InUse != 1 {
				t.Error("the lease has ended")
			}
		})
	}
}

// A caller of Await hangs up, and the purge of its ticket is refused at first. The slot was
// claimed for the ticket later, and stayed taken for an hour.
func TestTicketOfEndedAwaitLeavesLine(t *testing.T) {
	h := newHarness(t)
	on, session := h.enqueued()
	waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
	h.auto = false
	h.p.GiveUp(waits, context.Canceled, h.now)
	purge := h.take(entry.Ticket)
	h.ack(purge.ID, peer.Never, 0)
	h.auto = true
	h.pass(2 * time.Second)
	h.wantError(waits, context.Canceled)
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	h.must(peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour})
}

// Two peers mark the slot of one session, and the stream gets the other peer's mark first.
// That peer may answer its caller, or free the slot: this one must not answer with it.
func TestSlotThatAnotherPeerHasMarked(t *testing.T) {
	h := newHarness(t)
	on, session := h.enqueued()
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	h.auto = false
	waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Second})
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	mark := h.take(entry.Slot)
	other := mark.Message
	other.Author++
	h.feed(h.store(&other))
	h.auto = true
	h.publish(&mark)
	h.pass(100 * time.Millisecond)
	h.wantError(waits, peer.ErrNotEnqueued)
}

// A wait is over. The purge of its ticket is written without an answer, and another gateway
// enqueues the session again. The second copy of the purge is refused. The wait was answered
// "not enqueued".
func TestTicketPurgedUnanswered(t *testing.T) {
	for _, skipped := range []bool{false, true} {
		h := newHarness(t)
		on, session := h.enqueued()
		waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Second})
		h.auto = false
		h.pass(1100 * time.Millisecond)
		purge := h.take(entry.Ticket)
		h.pass(600 * time.Millisecond)
		again := h.take(entry.Ticket)

		purged := h.store(&purge.Message)
		if !skipped {
			h.feed(purged)
		}
		value := entry.TicketValue{
			Lease: h.hash(), Generation: h.generation(on.Pool), Peer: h.hash(),
			TTL: entry.Span(time.Hour), Nonce: h.hash(), Wait: entry.Span(rules.EnqueuedLife),
		}
		next := entry.NewMessage(purge.Key, value, purged.Revision, rules.EnqueuedLife+rules.Guard)
		enqueued := h.store(&next)
		h.feed(enqueued)
		h.auto = true
		h.publish(&again)
		h.pass(100 * time.Millisecond)
		h.wantError(waits, peer.ErrNoSlot)
		if h.stands[purge.Key] != enqueued.Revision {
			t.Errorf("skipped %t: the ticket of the later Enqueue was purged", skipped)
		}
	}
}

// While a wait goes on, other gateways take its ticket out of the line and enqueue the session
// again. The view shows only the later ticket, since a catch-up skips what was overwritten. The
// wait took that out of the line, too, when its time was over.
func TestAwaitLeavesOnlyItsOwnTicket(t *testing.T) {
	h := newHarness(t)
	on, session := h.enqueued()
	key := rules.EnqueuedKey(on.Pool, session)
	waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Second})
	purge := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
	purged := h.store(&purge)
	value := entry.TicketValue{
		Lease: h.hash(), Generation: h.generation(on.Pool), Peer: h.hash(),
		TTL: entry.Span(time.Hour), Nonce: h.hash(), Wait: entry.Span(rules.EnqueuedLife),
	}
	next := entry.NewMessage(key, value, purged.Revision, rules.EnqueuedLife+rules.Guard)
	enqueued := h.store(&next)
	h.feed(enqueued)
	h.pass(2 * time.Second)
	h.wantError(waits, peer.ErrNotEnqueued)
	if h.stands[key] != enqueued.Revision {
		t.Error("the ticket of the later Enqueue was purged")
	}
}
