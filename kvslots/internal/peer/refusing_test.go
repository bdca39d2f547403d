package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A view that becomes current after more than refuseGrace shows, in the only slot, a claim
// that its peer is about to withdraw. The borrow waits for that, and gets the slot.
func TestLateViewWaitsForClaimInDoubt(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	lent := h.borrow(pool, 0)
	h.must(lent)
	h.auto = false
	call := h.begin(h.borrow(pool, 0))
	h.take(entry.Barrier) // lost

	h.pass(2 * time.Second)
	h.storePurge(pool) // the view skips it
	h.fed(h.otherClaim(pool, 0))
	h.catchUp()
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	h.wantNoAnswer(t, call)
	h.pass(rules.StallTime / 2)
	h.auto = true
	h.feed(h.storePurge(pool))
	h.settle()
	h.granted(call)
}

func (h *harness) generation(pool entry.Hash) uint64 {
	return h.configs[entry.Key{Kind: entry.Config, Pool: pool}].Generation
}

// storeClaim stores a claim of slot 0 by another peer, for a ticket that never stood.
func (h *harness) storeClaim(pool entry.Hash) entry.Entry {
	key := rules.SlotKey(pool, 0)
	value := entry.SlotValue{Lease: h.hash(), Claimer: h.hash(), Ticket: 1, Generation: h.generation(pool), TTL: entry.Span(time.Hour)}
	m := entry.NewMessage(key, value, h.stands[key], time.Hour+rules.Guard)
	return h.store(&m)
}

// storePurge stores a purge of slot 0.
func (h *harness) storePurge(pool entry.Hash) entry.Entry {
	key := rules.SlotKey(pool, 0)
	m := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
	return h.store(&m)
}

// A slot is free, and may not be claimed while the purge of a lower one is under way. A borrow is
// not refused, however long that takes.
func TestFreeSlotThatMayNotBeClaimedYetIsNotRefused(t *testing.T) {
	h := newHarness(t)
	lent := h.borrow(h.newPool(2), 0)
	h.must(lent)
	h.auto = false
	h.begin(giveBack(lent))
	purge := h.take(entry.Slot)
	call := h.begin(h.borrow(lent.Pool, 0))
	h.passWithout(purge.Key, 3*time.Second)
	h.wantNoAnswer(t, call)
	h.auto = true
	h.publish(&purge)
	h.settle()
	h.granted(call)
}
