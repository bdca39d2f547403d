package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A key stays due until the view shows its purge. While the server answers a barrier after
// two seconds, and a purge not at all, each purge is one message, sent again twice a second.
func TestDueKeyIsPurgedOnce(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	b.TTL = 2 * time.Second
	h.must(b)
	h.must(peer.CreateSession{Session: h.hash(), Idle: 2 * time.Second})
	h.auto = false
	purges, last := map[entry.Key]int{}, map[entry.Key]peer.Instant{}
	var barrier peer.Write
	var answerAt peer.Instant
	for end := h.now.Add(9 * time.Second); h.now < end; h.pass(10 * time.Millisecond) {
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			switch {
			case w.Key.Kind == entry.Barrier && answerAt == 0:
				barrier, answerAt = w, h.now.Add(2*time.Second)
			case w.Key.Kind == entry.Barrier:
			case !w.Marker:
				h.publish(&w)
			default:
				if n := purges[w.Key]; n > 0 && h.now.Sub(last[w.Key]) < 490*time.Millisecond {
					t.Errorf("purge %d of %s was sent %v after the one before", n, w.Key, h.now.Sub(last[w.Key]))
				}
				purges[w.Key]++
				last[w.Key] = h.now
			}
		}
		if answerAt != 0 && h.now >= answerAt {
			h.publish(&barrier)
			answerAt = 0
		}
	}
	if len(purges) != 2 {
		t.Errorf("purged %v instead of a slot and a session", purges)
	}
}

// An expired lease is counted by what it held, whether this peer has granted it or another
// one, and also if the session has only enqueued for it.
func TestExpiries(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	b := h.borrow(pool, 0)
	b.TTL = time.Second
	h.must(b)
	generation := h.configs[entry.Key{Kind: entry.Config, Pool: pool}].Generation
	others := entry.NewMessage(entry.Key{Kind: entry.Slot, Pool: pool, N: 1},
		entry.SlotValue{Lease: h.hash(), Claimer: h.hash(), Generation: generation, TTL: entry.Span(time.Second)}, 0, time.Minute)
	h.feed(h.store(&others))
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	for _, name := range []string{"a", "b", "c"} {
		h.must(peer.Acquire{Resource: peer.Resource{Pool: h.hash(), Name: name, Limit: 2}, Session: session, Lease: h.hash(), TTL: time.Second})
	}
	h.must(peer.Enqueue{Resource: peer.Resource{Pool: h.hash(), Name: "d", Limit: 2}, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Second})
	h.must(peer.Acquire{Resource: peer.Resource{Pool: h.hash(), Name: "e", Lock: true, Limit: 1}, Owner: "o", Lease: h.hash(), TTL: time.Second})
	h.must(peer.Acquire{Resource: peer.Resource{Pool: h.hash(), Name: "f", Lock: true, Limit: 1}, Owner: "o", Lease: h.hash(), TTL: time.Hour})
	h.pass(5 * time.Second)
	if c, _ := h.p.Metrics(h.now); c.Expiries != (peer.ByUse[uint64]{Pools: 2, Sessions: 4, Owned: 1}) || c.Leased.Pools.Count != 2 || c.Leased.Sessions.Count != 4 || c.Leased.Owned.Count != 1 {
		t.Errorf("%+v, %d leases ended", c.Expiries, c.Leased)
	}
}

// The ticket that another peer's claim names is not in line. That peer has died.
func TestExcludedClaimOfADeadPeerIsPurged(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.feed(h.storeClaim(pool))
	h.settle()
	h.pass(3 * time.Second)
	if n := h.inspect(pool).InUse; n != 0 {
		t.Errorf("%d slots are in use", n)
	}
}
