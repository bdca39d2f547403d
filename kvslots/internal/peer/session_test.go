package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A session that ends before its client knows of it is not "gone" for that client. The
// acknowledgement comes so late that the answer waits for a refresh.
func TestSessionEndsBeforeItsCreationIsAnswered(t *testing.T) {
	h := newHarness(t)
	h.auto = false
	session := h.hash()
	call := h.begin(peer.CreateSession{Session: session, Idle: time.Second})
	creation := h.take(entry.Session)
	h.now = h.now.Add(600 * time.Millisecond)
	h.publish(&creation)
	h.settle()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %v without a refresh", a.Err)
	}
	end := entry.NewPurge(rules.SessionKey(session), h.last, rules.MarkerTTL)
	h.apply(h.store(&end))
	h.settle()
	if a, answered := h.answers[call]; !answered || !errors.Is(a.Err, peer.ErrUnavailable) {
		t.Errorf("answered %t, %v", answered, a.Err)
	}
}
