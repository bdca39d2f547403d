package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
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
