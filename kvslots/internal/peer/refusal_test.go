package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// refusal returns what a call was told that was refused.
func (h *harness) refusal(id uint64, want error) peer.Refusal {
	h.t.Helper()
	h.wantError(id, want)
	if r := h.answers[id].Refusal; r != nil {
		return *r
	}
	return peer.Refusal{}
}

// A refusal says who holds the lowest position and for how long, and under which limit.
func TestRefusalSaysWhoHolds(t *testing.T) {
	h := newHarness(t)
	first := h.acquire("builds", 2, 0)
	first.Label = "ci@b7"
	h.must(first)
	h.pass(time.Minute)
	second := h.acquire("builds", 2, 0)
	second.Label = "other"
	h.must(second)
	want := peer.Refusal{Place: 1, Label: "ci@b7", Age: time.Minute, Terms: entry.Terms{Name: "builds", Limit: 2}}
	got := h.refusal(h.begin(h.acquire("builds", 2, 0)), peer.ErrNoSlot)
	if got.Age = got.Age.Truncate(time.Second); got != want {
		t.Errorf("no slot: %+v, want %+v", got, want)
	}
	got = h.refusal(h.begin(h.acquire("builds", 3, 0)), peer.ErrLimitMismatch)
	want.Place = 0
	if got.Age = time.Minute; got != want {
		t.Errorf("another limit: %+v, want %+v", got, want)
	}
}

// A borrow that waits until its pool is paused is refused with the reason as soon as it is, and a repeat
// has the place that it had. Others wait on.
func TestWaitUntilPaused(t *testing.T) {
	h := newHarnessOf(t, peer.Config{ResumeGrace: grace})
	pool := h.newPool(1)
	holder := h.borrow(pool, 0)
	h.must(holder)
	told := h.borrow(pool, time.Hour)
	told.Request, told.Nonce, told.UntilPaused = h.hash(), h.hash(), true
	asked := h.begin(told)
	other := h.begin(h.borrow(pool, time.Hour))
	h.wantState(pool, reads.State{Count: 1, InUse: 1, Waiting: 2})
	h.must(out(pool, entry.WholePool, "upgrade"))
	if r := h.refusal(asked, peer.ErrNoSlot); r.Place != 1 || !r.Paused || r.Reason != "upgrade" {
		t.Errorf("refused: %+v", r)
	}
	told.UntilPaused = false
	asked = h.begin(told)
	late := h.borrow(pool, time.Hour)
	late.Request, late.Nonce, late.UntilPaused = h.hash(), h.hash(), true
	if r := h.refusal(h.begin(late), peer.ErrNoSlot); r.Place != 3 || r.Reason != "upgrade" {
		t.Errorf("refused during the pause: %+v", r)
	}
	h.pass(grace / 2)
	h.must(in(pool, entry.WholePool))
	h.must(peer.Return{Held: peer.Held{Pool: pool, Lease: holder.Lease}})
	h.granted(asked)
	if _, answered := h.answers[other]; answered {
		t.Error("the second one is answered before its turn")
	}
}
