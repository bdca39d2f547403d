package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

func out(pool entry.Hash, position int, reason string) peer.SetOut {
	return peer.SetOut{Pool: pool, Out: entry.Out{Position: position, Reason: reason}}
}

func in(pool entry.Hash, position int) peer.SetOut {
	r := out(pool, position, "")
	r.InService = true
	return r
}

func (h *harness) wantState(pool entry.Hash, want reads.State) {
	h.t.Helper()
	if s := h.inspect(pool); s != want {
		h.t.Errorf("the state is %+v, want %+v", s, want)
	}
}

// The lease of a position goes on when it is taken out of service, and may be renewed. When it
// ends, nobody gets the position until it is back.
func TestOutOfService(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(3)
	first := h.borrow(pool, 0)
	h.must(first)
	h.must(out(pool, 0, "broken"))
	h.must(out(pool, 1, ""))
	h.wantState(pool, reads.State{Count: 3, InUse: 1, Available: 1})
	held := peer.Held{Pool: pool, Lease: first.Lease}
	if g := h.must(peer.Renew{Held: held, TTL: time.Hour}).Grant; g.Position != 0 {
		t.Errorf("the lease is at position %d", g.Position)
	}
	if g := h.must(h.borrow(pool, 0)).Grant; g.Position != 2 {
		t.Errorf("position %d was lent", g.Position)
	}
	h.wantError(h.begin(h.borrow(pool, 0)), peer.ErrNoSlot)
	waiting := h.begin(h.borrow(pool, time.Hour))
	h.must(peer.Return{Held: held})
	h.wantState(pool, reads.State{Count: 3, InUse: 1, Waiting: 1})
	h.must(peer.Register{Pool: pool, Count: 3}) // keeps what is out
	h.must(peer.Register{Pool: pool, Count: 1})
	h.must(peer.Register{Pool: pool, Count: 3})
	h.wantState(pool, reads.State{Count: 3, InUse: 1, Waiting: 1})
	h.must(in(pool, 1))
	if g := h.granted(waiting).Grant; g.Position != 1 {
		t.Errorf("position %d was lent", g.Position)
	}
	if d := h.must(peer.ReadPool{Pool: pool}).Detail; d.Out != 1 || d.OutOfService[0] != (reads.OutOfService{Position: 0, Reason: "broken"}) {
		t.Errorf("out of service: %+v", d.OutOfService)
	}
}

func TestPause(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	first := h.borrow(pool, 0)
	h.must(first)
	h.must(out(pool, entry.WholePool, "power"))
	h.wantState(pool, reads.State{Count: 2, InUse: 1})
	h.wantError(h.begin(h.borrow(pool, 0)), peer.ErrNoSlot)
	waiting := h.begin(h.borrow(pool, time.Hour))
	h.must(peer.Return{Held: peer.Held{Pool: pool, Lease: first.Lease}})
	h.pass(time.Minute)
	h.wantState(pool, reads.State{Count: 2, Waiting: 1})
	h.must(in(pool, entry.WholePool))
	h.granted(waiting)
}

func TestSetOutErrors(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.wantError(h.begin(out(h.hash(), 0, "")), peer.ErrNoPool)
	h.wantError(h.begin(out(pool, 2, "")), peer.ErrNoPosition)
	h.must(in(pool, 7)) // a position that the pool may have had
	h.must(out(pool, 1, "a"))
	last := h.last
	if h.must(out(pool, 1, "a")); h.last != last {
		t.Error("what is so already was written again")
	}
	h.must(out(pool, 1, "b"))
	if d := h.must(peer.ReadPool{Pool: pool}).Detail; d.OutOfService[0].Reason != "b" {
		t.Errorf("out of service: %+v", d.OutOfService)
	}
}

// A pool of which something is out of service is not removed as idle, and a name keeps its terms.
func TestOutOfServiceIsNotIdle(t *testing.T) {
	h := newHarnessOf(t, peer.Config{PoolIdle: time.Minute})
	pool, other := h.newPool(1), h.newPool(1)
	on, session := h.ownedLock()
	h.must(out(pool, 0, ""))
	h.must(out(on.Pool, 0, ""))
	h.must(peer.EndSession{Session: session})
	h.pass(time.Hour)
	h.wantGone(t, other)
	h.wantState(pool, reads.State{Count: 1})
	h.wantState(on.Pool, reads.State{Count: 1})
	on.Lock, on.Limit = false, 5
	session = h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	h.wantError(h.begin(peer.Acquire{Resource: on, Session: session, Lease: h.hash(), TTL: time.Minute}), peer.ErrLimitMismatch)
	h.must(in(pool, 0))
	h.pass(time.Hour)
	h.wantGone(t, pool)
}

// A name of which anything is out of service is in use by the client that was the last to take
// something out: it had counted for none, and one client could keep all names for ever.
func TestOutOfServiceCountsForItsOrigin(t *testing.T) {
	const most = 3
	cfg := peer.Config{MaxLocks: 2 * most, MaxLocksPerOrigin: most}
	h := newHarnessOf(t, cfg)
	flooder, other := h.hash(), h.hash()
	lock := func(h *harness, origin entry.Hash) (peer.Acquire, uint64) {
		r := peer.Acquire{
			Resource: peer.Resource{Pool: h.hash(), Dialect: "d", Name: "n", Lock: true, Limit: 1},
			Lease:    h.hash(), Owner: "o", Origin: origin, TTL: time.Hour,
		}
		return r, h.begin(r)
	}
	pause := func(pool, origin entry.Hash) peer.SetOut {
		r := out(pool, entry.WholePool, "")
		r.Origin = origin
		return r
	}
	var paused []entry.Hash
	for range most {
		r, id := lock(h, flooder)
		h.granted(id)
		h.must(pause(r.Pool, flooder))
		h.must(peer.ReleaseOwned{Pool: r.Pool, Owner: "o"})
		paused = append(paused, r.Pool)
	}
	_, id := lock(h, flooder)
	h.wantError(id, peer.ErrMaxLocksPerOrigin)
	kept, id := lock(h, other)
	h.granted(id)
	h.wantError(h.begin(pause(kept.Pool, flooder)), peer.ErrMaxLocksPerOrigin)
	h.must(pause(paused[0], flooder)) // it uses that name already

	again := startHarness(t, cfg)
	again.stream, again.last, again.stands, again.names = h.stream, h.last, h.stands, 100
	again.catchUp()
	_, id = lock(again, flooder)
	again.wantError(id, peer.ErrMaxLocksPerOrigin)

	taken := pause(paused[0], other)
	taken.Reason = "mine" // it counts for the other one from now on
	h.must(taken)
	_, id = lock(h, flooder)
	h.granted(id)
	h.must(in(paused[1], entry.WholePool))
	h.pass(2 * time.Minute) // it is closed as idle
	if n := h.must(peer.ReadPools{Max: 100}).Stats.Pools; len(n) != 4 {
		t.Errorf("%d names are in use", len(n))
	}
}

// An idle name that is taken out of service is in use from then on, for the cap on all names.
func TestOutOfServiceIsInUse(t *testing.T) {
	h := newHarnessOf(t, peer.Config{MaxLocks: 1})
	var pools []entry.Hash
	for range 2 {
		r := peer.Acquire{
			Resource: peer.Resource{Pool: h.hash(), Dialect: "d", Name: "n", Lock: true, Limit: 1},
			Lease:    h.hash(), Owner: "o", TTL: time.Hour,
		}
		h.must(r)
		h.must(peer.ReleaseOwned{Pool: r.Pool, Owner: "o"})
		pools = append(pools, r.Pool)
	}
	h.must(out(pools[0], entry.WholePool, ""))
	h.wantError(h.begin(out(pools[1], entry.WholePool, "")), peer.ErrMaxLocks)
	h.must(out(pools[0], 0, "")) // it is in use already
}

// acquire returns a request for a semaphore, which waits if wait is not 0.
func (h *harness) acquire(name string, limit int, wait time.Duration) peer.Acquire {
	pool := entry.Terms{Name: name}.Pool()
	resource := peer.Resource{Pool: pool, Name: name, Lock: limit == 0, Limit: max(1, limit)}
	return peer.Acquire{Resource: resource, Lease: h.hash(), TTL: time.Hour, Wait: wait}
}

// An operator changes the limit of a semaphore. Those in line wait on; a request that names the limit before is
// refused from then on, also a repeat.
func TestSetLimit(t *testing.T) {
	h := newHarnessOf(t, peer.Config{ResumeGrace: grace})
	first := h.acquire("builds", 1, 0)
	h.must(first)
	waiting := h.begin(h.acquire("builds", 1, time.Hour))
	keyed := h.acquire("builds", 1, 10*time.Second)
	keyed.Request, keyed.Nonce = h.hash(), h.hash()
	short := h.begin(keyed)
	h.wantState(first.Pool, reads.State{Count: 1, InUse: 1, Waiting: 2})
	h.must(out(first.Pool, entry.WholePool, ""))
	h.must(peer.SetLimit{Pool: first.Pool, Limit: 3})
	h.pass(11 * time.Second)
	h.wantError(short, peer.ErrNoSlot)
	h.wantError(h.begin(keyed), peer.ErrLimitMismatch)
	lost := entry.NewPurge(h.presence(), h.stands[h.presence()], rules.MarkerTTL) // with the ticket: it joins again
	h.feed(h.store(&lost))
	h.pass(grace)
	h.must(in(first.Pool, entry.WholePool))
	h.granted(waiting)
	h.wantState(first.Pool, reads.State{Count: 3, InUse: 2, Available: 1})
	h.wantError(h.begin(h.acquire("builds", 1, 0)), peer.ErrLimitMismatch)
	h.must(h.acquire("builds", 3, 0))
	h.must(peer.SetLimit{Pool: first.Pool, Limit: 2}) // leases go on
	h.wantState(first.Pool, reads.State{Count: 2, InUse: 3})

	lock := h.acquire("nightly", 0, 0)
	h.must(lock)
	h.wantError(h.begin(peer.SetLimit{Pool: lock.Pool, Limit: 3}), peer.ErrLimitMismatch)
	h.wantError(h.begin(peer.SetLimit{Pool: h.hash(), Limit: 3}), peer.ErrNoPool)
}

// A name that is not in use can be paused. The first borrow sets its kind and its limit, and waits.
func TestPauseOfUnusedName(t *testing.T) {
	h := newHarness(t)
	a := h.acquire("builds", 4, time.Hour)
	h.wantError(h.begin(out(a.Pool, entry.WholePool, "upgrade")), peer.ErrNoPool) // by the hash alone
	pause := out(a.Pool, entry.WholePool, "upgrade")
	pause.Name = "builds"
	h.must(pause)
	h.pass(3 * time.Minute) // it is not closed as idle
	h.wantError(h.begin(h.acquire("builds", 4, 0)), peer.ErrNoSlot)
	waiting := h.begin(a)
	h.wantState(a.Pool, reads.State{Count: 4, Waiting: 1})
	h.must(in(a.Pool, entry.WholePool))
	h.granted(waiting)
}
