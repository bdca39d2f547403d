package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// A pool is unregistered when it has been idle for PoolIdle. A lease, a registration that
// changes nothing and a ticket are uses.
func TestIdlePoolIsUnregistered(t *testing.T) {
	h := newHarnessOf(t, peer.Config{PoolIdle: time.Hour})
	idle, empty, lent, waited, renewed, again := h.newPool(1), h.newPool(0), h.newPool(1), h.newPool(0), h.newPool(1), h.newPool(1)
	held, short := h.borrow(lent, 0), h.borrow(renewed, 0)
	held.TTL, short.TTL = 3*time.Hour, 50*time.Minute
	h.must(held)
	h.must(short)
	h.begin(h.borrow(waited, 2*time.Hour))
	h.pass(40 * time.Minute)
	h.must(peer.Renew{Held: peer.Held{Pool: renewed, Lease: short.Lease}, TTL: 10 * time.Minute})
	h.pass(19 * time.Minute)
	h.must(peer.Register{Pool: again, Count: 1})
	h.wantPools(t, 6)
	h.pass(2 * time.Minute)
	h.wantGone(t, idle, empty)
	h.wantPools(t, 4)
	h.pass(47 * time.Minute) // 58 after the expiry
	h.wantPools(t, 4)
	h.pass(14 * time.Minute)
	h.wantGone(t, again, renewed)
	h.wantPools(t, 2)
	h.must(giveBack(held))
	h.pass(59 * time.Minute)
	h.wantPools(t, 1) // the wait was over an hour ago
	h.wantGone(t, waited)
	h.pass(2 * time.Minute)
	h.wantPools(t, 0)
	if n := h.p.Counters().IdlePools; n != 6 {
		t.Errorf("%d idle pools were counted", n)
	}
}

// A peer without PoolIdle unregisters none, and restores one that is being closed by a
// peer that has it.
func TestPoolIdleIsOff(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.pass(3 * time.Hour)
	h.wantPools(t, 1)
	h.closePool(pool)
	h.pass(2 * time.Second)
	h.wantPools(t, 1)
	h.must(h.borrow(pool, 0))
}

// While a pool is being closed, its state is told as before, and a borrow or a
// registration restores it.
func TestUseOfPoolBeingClosed(t *testing.T) {
	h := newHarnessOf(t, peer.Config{PoolIdle: time.Hour})
	pool := h.newPool(3)
	for name, use := range map[string]peer.Request{
		"borrow":            peer.Borrow{Pool: pool, Lease: h.hash(), TTL: time.Second},
		"wait":              peer.Borrow{Pool: pool, Lease: h.hash(), TTL: time.Second, Wait: time.Second},
		"same registration": peer.Register{Pool: pool, Count: 3},
	} {
		closed := h.closePool(pool)
		if state := h.must(peer.ReadPool{Pool: pool}).Detail.State; state != (reads.State{Count: 3, Available: 3}) {
			t.Errorf("%s: %+v", name, state)
		}
		h.must(use)
		if h.stands[entry.Key{Kind: entry.Config, Pool: pool}] == closed {
			t.Errorf("%s: the pool is still being closed", name)
		}
		h.pass(2 * time.Second)
	}
	h.must(peer.Register{Pool: pool, Count: 2})
	h.closePool(pool)
	h.must(peer.Delete{Pool: pool})
	h.wantGone(t, pool)
}

// Any peer closes an idle pool, and finishes the closing of another peer, within two seconds.
func TestIdlePoolIsClosedByAnyPeer(t *testing.T) {
	for _, begun := range []bool{false, true} {
		h := newHarnessOf(t, peer.Config{PoolIdle: time.Hour})
		pool := h.newPool(1)
		h.pass(time.Hour - time.Second)
		h.wantPools(t, 1)
		if h.pass(time.Second); begun {
			h.closePool(pool)
		}
		h.pass(2 * time.Second)
		h.wantPools(t, 0)
	}
}

// closePool writes that another peer is closing the pool, and returns the revision.
func (h *harness) closePool(pool entry.Hash) uint64 {
	h.t.Helper()
	key := entry.Key{Kind: entry.Config, Pool: pool}
	value := h.configs[key]
	value.Closing = true
	m := entry.NewMessage(key, value, h.stands[key], 0)
	e := h.store(&m)
	h.feed(e)
	h.settle()
	return e.Revision
}

// addPeers shows the peer other ones that are alive for a time and do nothing.
func (h *harness) addPeers(n int, idle time.Duration) {
	for range n {
		alive := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(idle)}
		m := entry.NewMessage(rules.SessionKey(h.hash()), alive, 0, idle)
		h.feed(h.store(&m))
	}
}

func (h *harness) wantPools(t *testing.T, want int) {
	t.Helper()
	if _, g := h.p.Metrics(h.now); g.Pools.Pools != want {
		t.Fatalf("%d pools are registered, want %d", g.Pools.Pools, want)
	}
}

func (h *harness) wantGone(t *testing.T, pools ...entry.Hash) {
	t.Helper()
	for i, pool := range pools {
		if a := h.answers[h.begin(peer.ReadPool{Pool: pool})]; !errors.Is(a.Err, peer.ErrNoPool) {
			t.Errorf("pool %d is registered: %+v, %v", i, a.Detail, a.Err)
		}
	}
}

// A claim reaches the stream just before another peer's closing, and its lease is renewed just
// behind. The feed has lost the claim, and the renewal has overwritten it: so a catch-up shows
// the closing before it shows a lease. Only the view that is live again, and has the renewal,
// finishes the closing.
func TestClosingIsNotFinishedDuringCatchUp(t *testing.T) {
	h := newHarnessOf(t, peer.Config{PoolIdle: time.Hour})
	pool, other := h.newPool(1), h.newPool(1)
	h.pass(time.Hour - 100*time.Millisecond)
	claim := h.otherClaim(pool, 0)
	h.manual = true
	h.closePool(pool) // shows the gap
	closed := h.stream[len(h.stream)-1]
	value := claim.Slot
	value.Fence = claim.Fence()
	renewal := entry.NewMessage(claim.Key, value, claim.Revision, time.Hour+rules.Guard)
	h.store(&renewal)

	h.auto = false
	h.beginReading()
	h.read(closed)
	h.pass(1500 * time.Millisecond)
	h.wantNotLive()
	h.manual, h.auto = false, true
	h.readAll()
	h.pass(2 * time.Second)
	h.wantLive()
	h.wantGone(t, other)
	if c := h.configs[closed.Key]; c.Generation == 0 || c.Closing {
		t.Errorf("the pool of a lease has become %+v", c)
	}
}
