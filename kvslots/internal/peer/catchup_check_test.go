package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// The stream has lost its last entry, which raised a pool's count. Its last sequence does
// not show that, since another peer has claimed a slot and purged the claim. A catch-up
// reads both entries, or only the second one. It may be broken off when it has delivered a later
// presence of the peer. The peer claims nothing, and builds its view anew: the other peers do not
// know of the higher count.
func TestNewWatchFindsLostEntry(t *testing.T) {
	for name, c := range map[string]struct {
		first  int
		broken bool
	}{"other entry": {first: 0}, "no entry": {first: 1}, "no entry, and a broken reading": {first: 1, broken: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.hash()
			h.feed(h.storeCount(pool, 0))
			h.pass(4 * time.Second) // the check begins at the last refresh of the presence
			h.auto = false
			lost := h.storeCount(pool, 1)
			h.feed(lost)

			h.lose(lost.Revision - 1)
			instead := []entry.Entry{h.storeClaim(pool), h.storePurge(pool)}
			h.manual = true
			h.breakFeed()
			h.beginReading()
			call := h.begin(h.borrow(pool, 0))
			for _, e := range instead[c.first:] {
				h.read(e)
			}
			h.settle()
			for _, w := range h.sent {
				if w.Key.Kind == entry.Slot {
					t.Fatalf("the peer has claimed position %d", w.Key.N)
				}
			}
			if c.broken {
				presence := h.take(entry.Session)
				h.read(h.store(&presence.Message))
				h.manual = false
				h.breakFeed()
			}
			for h.p.Counters().Rebuilds == 0 {
				h.publishPresence()
			}
			if a, answered := h.answers[call]; answered {
				t.Errorf("answered %+v before the view was built anew", a)
			}
		})
	}
}

// storeCount stores a pool's configuration by another peer.
func (h *harness) storeCount(pool entry.Hash, count int) entry.Entry {
	key := entry.Key{Kind: entry.Config, Pool: pool}
	m := entry.NewMessage(key, entry.ConfigValue{Count: count, Generation: 1}, h.stands[key], 0)
	return h.store(&m)
}

// The stream has acknowledged the purge of a ticket whose borrow has ended, and then lost it
// with its last writes. The peer's view had not reached the purge, so the check finds nothing
// amiss: the ticket is in the view, and no borrow of the peer will purge it. The peer purges
// it after the check.
func TestCheckPurgesTicketOfEndedBorrow(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.must(h.borrow(pool, 0))
	call := h.begin(h.borrow(pool, time.Hour))
	h.pass(4 * time.Second) // the check begins at the last refresh of the presence
	h.auto = false
	last := h.last
	h.p.GiveUp(call, errors.New("the caller is gone"), h.now)
	purge := h.take(entry.Ticket)
	h.ack(purge.ID, peer.Written, h.store(&purge.Message).Revision)

	h.lose(last)
	h.storeBarrier()
	h.storeBarrier()
	h.breakFeed()
	h.catchUp()
	if n := h.p.Counters().Rebuilds; n != 0 {
		t.Fatalf("the view was built anew %d times: the check has found the loss", n)
	}
	if again := h.take(entry.Ticket); !again.Marker || again.Key != purge.Key || again.Revision != purge.Revision {
		t.Errorf("the peer has written %+v, and not purged the ticket", again.Message)
	}
}
