package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A change of leader loses the presence that a view waits for to become live. It was sent again
// only after 500 ms.
func TestPresenceOfCatchUpIsSentAgain(t *testing.T) {
	h := newHarness(t)
	h.auto = false
	h.breakFeed()
	lost := h.take(entry.Session)
	h.pass(99 * time.Millisecond)
	if len(h.sent) > 0 {
		t.Fatalf("the peer writes %+v", h.sent[0].Message)
	}
	h.pass(time.Millisecond)
	if again := h.take(entry.Session); again.Author != lost.Author {
		t.Errorf("the peer writes %+v after %+v", again.Message, lost.Message)
	}
}
