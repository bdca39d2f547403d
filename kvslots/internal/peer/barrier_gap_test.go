package peer_test

import (
	"testing"
	"time"
)

// A read barrier names a revision that the feed has lost. The view is caught up after 300 ms.
func TestMissingRevisionBelowBarrier(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.feed(h.storeClaim(pool))
	h.storePurge(pool) // the feed loses it
	call := h.begin(h.borrow(pool, 0))
	h.wantNoAnswer(t, call)
	h.pass(300 * time.Millisecond)
	h.wantReading(2)
	h.pass(2 * time.Second)
	h.granted(call)
}
