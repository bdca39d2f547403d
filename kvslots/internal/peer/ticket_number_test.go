package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// The marker of a ticket is written again, since the leader's clock was set back. Its number was
// freed twice, so two borrows wrote their tickets to one key, and one of them was answered
// ErrUnavailable.
func TestMarkerOfTicketIsWrittenAgain(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	h.must(b)
	first := h.begin(h.borrow(b.Pool, time.Hour))
	h.begin(h.borrow(b.Pool, time.Hour)) // keeps the numbers of the pool's tickets
	h.must(giveBack(b))
	h.granted(first)
	for key, revision := range h.stands {
		if key.Kind == entry.Ticket && h.stream[revision-firstSequence-1].Marker {
			again := entry.NewPurge(key, revision, rules.MarkerTTL)
			h.fed(h.store(&again))
		}
	}
	h.auto = false
	h.begin(h.borrow(b.Pool, time.Hour))
	h.begin(h.borrow(b.Pool, time.Hour))
	if one, other := h.take(entry.Ticket), h.take(entry.Ticket); one.Key == other.Key {
		t.Errorf("two borrows write their tickets to %v", one.Key)
	}
}
