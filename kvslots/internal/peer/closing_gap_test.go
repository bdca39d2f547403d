package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A closing peer has missed an entry of the feed, and does not catch up: so it does not learn
// that a session has ended. Each refresh of the session is refused, and sent again at once.
func TestClosingPeerWithGapRepeatsNoRefusedRefresh(t *testing.T) {
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: 10 * time.Second})
	key := rules.SessionKey(session)

	h.auto = false
	h.begin(peer.Ping{Session: session})
	h.passWithout(entry.Key{}, 2*time.Second) // the session was used since it was written
	h.begin(peer.Ping{Session: session})
	for len(h.sent) == 0 || h.sent[0].Key.Kind != entry.Session || h.sent[0].Key == key {
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			h.publish(&w)
		}
		h.pass(10 * time.Millisecond)
	}
	presence := h.take(entry.Session)
	h.p.Close(h.now)
	end := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
	h.store(&end)
	h.publish(&presence)

	refreshes := 0
	for range 1000 {
		h.pass(10 * time.Millisecond)
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			if w.Key == key {
				refreshes++
			}
			h.publish(&w)
		}
	}
	if refreshes > 20 {
		t.Errorf("the session that has ended was refreshed %d times", refreshes)
	}
}
