package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// The stream refuses writes for a minute, as with a full disk, but answers readings. The view
// is caught up meanwhile, and cannot become live. Then a session that no client could refresh
// has its whole idle time.
func TestSessionsOutliveTimeInWhichWritesAreRefused(t *testing.T) {
	h := newHarness(t)
	h.wantSessionOutlives(h.othersSession(), time.Minute, func(w *peer.Write) { h.ack(w.ID, peer.NotNow, 0) }, func() {})
}
