package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A peer lets its ticket's turn pass, while entries come every 50 ms. They must not put off the
// tick after which it is passed over.
func TestEntriesDoNotPutOffPassingOver(t *testing.T) {
	h := newHarness(t)
	h.addPeers(1, time.Hour)
	slow := h.stream[len(h.stream)-1].Key.Session
	pool := h.newPool(1)
	lent := h.borrow(pool, 0)
	h.must(lent)
	value := entry.TicketValue{Lease: h.hash(), Generation: h.generation(pool), Wait: entry.Span(time.Hour)}
	ticket := entry.NewMessage(entry.Key{Kind: entry.Ticket, Pool: pool, Session: slow}, value, 0, time.Hour)
	h.fed(h.store(&ticket))
	waits := h.begin(h.borrow(pool, time.Minute))
	h.must(giveBack(lent))
	h.wantNoAnswer(t, waits)

	for end := h.now.Add(rules.StallTime + 300*time.Millisecond); h.now < end; {
		h.now = h.now.Add(50 * time.Millisecond)
		if wake := h.p.Ready().WakeAt; wake != 0 && wake <= h.now {
			h.p.Tick(h.now)
		}
		h.fed(h.storeBarrier())
	}
	h.granted(waits)
}
