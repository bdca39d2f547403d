package peer_test

import "testing"

// A closing peer has missed an entry of the feed, and does not catch up: so it does not learn
// that a session has ended. Each refresh of the session is refused, and sent again at once.
func TestClosingPeerWithGapRepeatsNoRefusedRefresh(t *testing.T) {
	h, presence, end := closingWithRefresh(t)
	h.store(&end)
	h.publish(&presence)
	if n := h.refreshesOf(end.Key); n > 20 {
		t.Errorf("the session that has ended was refreshed %d times", n)
	}
}
