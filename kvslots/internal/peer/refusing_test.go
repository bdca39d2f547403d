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
	barrier := h.take(entry.Barrier)

	h.storePurge(pool) // the view skips it
	late := h.storeClaim(pool)
	h.pass(2 * time.Second)
	h.publish(&barrier)
	h.apply(late)
	h.settle()
	if a, ok := h.answers[call]; ok {
		t.Fatalf("answered %v while the claim in doubt stands", a.Err)
	}
	h.pass(rules.StallTime / 2)
	h.auto = true
	h.apply(h.storePurge(pool))
	h.settle()
	h.granted(call)
}

// Two tickets of other peers are in doubt, one after the other, for 1.8 s. Of three permits
// one is left even if neither ticket was served, so a borrow is not refused meanwhile.
func TestDoubtIsNoLackOfPermits(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(3)
	h.applyTicket(pool)
	h.storeClaim(pool) // the view skips it
	h.apply(h.storePurge(pool))
	call := h.begin(h.borrow(pool, 0))
	h.pass(800 * time.Millisecond)
	h.applyTicket(pool)
	h.storeClaim(pool)
	h.apply(h.storePurge(pool))
	h.pass(900 * time.Millisecond)
	if a, ok := h.answers[call]; ok {
		t.Fatalf("answered %v while a ticket is in doubt", a.Err)
	}
	h.pass(200 * time.Millisecond)
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

// applyTicket shows the peer another peer and a ticket of it.
func (h *harness) applyTicket(pool entry.Hash) {
	other := h.hash()
	presence := entry.NewMessage(entry.Key{Kind: entry.Session, Session: other}, entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Minute)}, 0, time.Minute+rules.Guard)
	h.apply(h.store(&presence))
	ticket := entry.NewMessage(entry.Key{Kind: entry.Ticket, Pool: pool, Session: other}, entry.TicketValue{Lease: h.hash(), Generation: h.generation(pool), Wait: entry.Span(time.Minute)}, 0, time.Minute+rules.Guard)
	h.apply(h.store(&ticket))
}
