package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// No copy of a repeat's write is answered for 6 s, so its call is answered "unavailable". A copy that reaches
// the stream later counted as an answer, and the lease was not taken back when the first caller was not told.
func TestAnswerOfAWriteThatIsGivenUpTellsNoCaller(t *testing.T) {
	h, key := newKeyed(t)
	first := h.must(h.repeat(key))
	h.auto = false
	call := h.begin(h.repeat(key))
	late := h.take(entry.Slot)
	h.passWithout(late.Key, 6*time.Second)
	h.wantError(call, peer.ErrUnavailable)
	h.publish(&late)
	h.auto = true
	h.pass(2 * time.Second)
	h.p.Untold(&first, peer.ErrUnavailable, h.now)
	h.pass(time.Second)
	if s := h.inspect(key.Pool); s.InUse != 0 {
		t.Error("the lease stays, and no caller was told of it")
	}
}

// A peer takes an answer off. Before its view shows whether that was written, another peer has written the slot
// twice, of which a catch-up shows the second entry alone. The answer stayed, and so did the lease when no other
// caller was told either.
func TestAnswerIsTakenOffASlotThatWasWrittenAgain(t *testing.T) {
	a, b, key := newKeyedTwice(t)
	first := a.must(a.repeat(key))
	untold := []peer.Answer{b.must(b.repeat(key))}
	a.auto = false
	a.p.Untold(&first, peer.ErrUnavailable, a.now)
	a.take(entry.Slot)
	a.paused = true
	untold = append(untold, b.must(b.repeat(key)), b.must(b.repeat(key)))
	a.unfed, a.paused, a.auto = nil, false, true
	a.breakFeed()
	a.pass(2 * time.Second)
	for i := range untold {
		b.p.Untold(&untold[i], peer.ErrUnavailable, b.now)
		b.settle()
	}
	b.pass(time.Second)
	if s := b.inspect(key.Pool); s.InUse != 0 {
		t.Error("the lease stays, and no caller was told of it")
	}
}

// The answers that a slot names are bounded: when more may have told a caller, the lease is not taken back.
func TestSlotNamesFewAnswers(t *testing.T) {
	h, key := newKeyed(t)
	var untold []peer.Answer
	for range 40 {
		untold = append(untold, h.must(h.repeat(key)))
	}
	last := h.stream[len(h.stream)-1].Slot
	if len(last.Answers) > 8 || !last.Known {
		t.Errorf("the slot names %d answers; known: %t", len(last.Answers), last.Known)
	}
	for i := range untold {
		h.p.Untold(&untold[i], peer.ErrUnavailable, h.now)
		h.settle()
	}
	if s := h.inspect(key.Pool); s.InUse != 1 {
		t.Error("the lease was taken back")
	}
}

// A wait marks its slot as seen, and loses its view. Meanwhile other peers end the lease. The wait was answered
// "not enqueued".
func TestAwaitOfALeaseThatHasEndedUnseen(t *testing.T) {
	h := newHarness(t)
	on, session := h.enqueued()
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	h.auto = false
	waits := h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Minute})
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	mark := h.take(entry.Slot)
	h.paused = true
	seen := h.store(&mark.Message)
	h.paused, h.unfed = false, nil
	h.breakFeed()
	for _, key := range []entry.Key{rules.EnqueuedKey(on.Pool, session), seen.Key} {
		purge := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
		h.feed(h.store(&purge))
	}
	h.auto = true
	h.pass(2 * time.Second)
	h.wantError(waits, peer.ErrLeaseExpired)
}
