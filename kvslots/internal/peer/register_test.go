package peer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A peer whose view is late says that there are too many pools only if there are: another
// peer may have registered the same pool, or deleted another one.
func TestRegisterAtCapInLateView(t *testing.T) {
	h := newHarnessOf(t, peer.Config{MaxPools: 1})
	first, second, third := h.newPool(1), h.hash(), h.hash()

	deleted := h.deleteUnseen(first)
	m := entry.NewMessage(entry.Key{Kind: entry.Config, Pool: second}, entry.ConfigValue{Count: 1, Generation: 7}, 0, 0)
	registered := h.store(&m)
	call := h.begin(peer.Register{Pool: second, Count: 1})
	h.wantNoAnswer(t, call)
	h.feed(deleted)
	h.feed(registered)
	h.settle()
	h.granted(call)
	if a := h.must(peer.Register{Pool: second, Count: 2}); a.Detail.State.Count != 2 {
		t.Errorf("the count of a registered pool is %d after its change", a.Detail.State.Count)
	}
	if a, answered := h.answers[h.begin(peer.Register{Pool: third, Count: 1})]; !answered || !errors.Is(a.Err, peer.ErrMaxPools) {
		t.Errorf("beyond the cap: answered %t, %v", answered, a.Err)
	}

	deleted = h.deleteUnseen(second)
	call = h.begin(peer.Register{Pool: third, Count: 1})
	h.wantNoAnswer(t, call)
	h.feed(deleted)
	h.settle()
	h.granted(call)
	h.wantPools(t, 1)
}

// deleteUnseen stores that another peer has deleted a pool, and returns the entry, which
// the peer has not seen yet.
func (h *harness) deleteUnseen(pool entry.Hash) entry.Entry {
	key := entry.Key{Kind: entry.Config, Pool: pool}
	m := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
	return h.store(&m)
}

func (h *harness) wantNoAnswer(t *testing.T, call uint64) {
	t.Helper()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %+v, %v in a late view", a.Detail, a.Err)
	}
}

// What was certainly not written does not count for a cap: the server has refused it for good,
// or "not now" until the peer gave it up.
func TestRefusedWriteCountsForNoCap(t *testing.T) {
	for _, outcome := range []peer.Outcome{peer.Never, peer.NotNow} {
		h := newHarnessOf(t, peer.Config{MaxPools: 1, MaxSessions: 1})
		h.auto = false
		pool := h.begin(peer.Register{Pool: h.hash(), Count: 1})
		session := h.begin(peer.CreateSession{Session: h.hash(), Idle: time.Hour})
		for end := h.now.Add(6 * time.Second); h.now < end; h.pass(10 * time.Millisecond) {
			writes := h.sent
			h.sent = nil
			for _, w := range writes {
				if w.Key.Kind == entry.Config || w.Key.Kind == entry.Session && w.Revision == 0 {
					h.ack(w.ID, outcome, 0)
				} else {
					h.publish(&w)
				}
			}
		}
		h.wantError(pool, peer.ErrUnavailable)
		h.wantError(session, peer.ErrUnavailable)
		h.auto = true
		h.must(peer.CreateSession{Session: h.hash(), Idle: time.Hour})
		h.newPool(1)
	}
}

// A write is under way that fills a cap. Another request waits until it has an outcome, and
// sends no read barriers meanwhile.
func TestWhatIsUnderWayCounts(t *testing.T) {
	for name, c := range map[string]struct {
		kind    entry.Kind
		request func(h *harness) peer.Request
		full    error
	}{
		"pools":    {entry.Config, func(h *harness) peer.Request { return peer.Register{Pool: h.hash(), Count: 1} }, peer.ErrMaxPools},
		"sessions": {entry.Session, func(h *harness) peer.Request { return peer.CreateSession{Session: h.hash(), Idle: time.Hour} }, peer.ErrMaxSessions},
	} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written %t", name, written), func(t *testing.T) {
				h := newHarnessOf(t, peer.Config{MaxPools: 1, MaxSessions: 1})
				h.auto = false
				h.begin(c.request(h))
				first := h.take(c.kind)
				h.auto = true
				second := h.begin(c.request(h))
				before := h.p.Counters().Barriers
				h.pass(400 * time.Millisecond)
				h.wantNoAnswer(t, second)
				if n := h.p.Counters().Barriers - before; n > 1 {
					t.Errorf("%d read barriers in 0.4 s", n)
				}
				if written {
					h.publish(&first)
				} else {
					h.ack(first.ID, peer.Never, 0)
				}
				h.pass(100 * time.Millisecond)
				if written {
					h.wantError(second, c.full)
				} else {
					h.granted(second)
				}
			})
		}
	}
}

// A lock is being opened, which would be one too many together with another one. The server
// refuses the first for good, so there is room for the second, whose name may be new, or open
// and idle under other terms.
func TestLockUnderWayCounts(t *testing.T) {
	for name, was := range map[string]int{"new name": 0, "other terms": 2} {
		t.Run(name, func(t *testing.T) {
			h := newHarnessOf(t, peer.Config{MaxLocks: 1})
			on := peer.Resource{Pool: h.hash(), Name: "b"}
			acquire := func(on peer.Resource) peer.Acquire {
				return peer.Acquire{Resource: on, Lease: h.hash(), Owner: "o", TTL: time.Hour}
			}
			if on.Limit = was; was != 0 {
				h.must(acquire(on))
				h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
			}
			on.Limit = 1
			h.auto = false
			first := h.begin(acquire(peer.Resource{Pool: h.hash(), Name: "a", Limit: 1}))
			config, claim := h.take(entry.Config), h.take(entry.Slot)
			h.auto = true
			second := h.begin(acquire(on))
			h.wantNoAnswer(t, second)
			h.ack(config.ID, peer.Never, 0)
			h.ack(claim.ID, peer.Never, 0)
			h.pass(time.Second)
			h.wantError(first, peer.ErrUnavailable)
			h.granted(second)
		})
	}
}

// What may not be written is no reason for "too many locks" of one session or origin, and what
// this peer is writing counts.
func TestShareUnderWayCounts(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  peer.Config
		most error
	}{
		"session": {peer.Config{MaxLocksPerSession: 1}, peer.ErrMaxLocksPerSession},
		"origin":  {peer.Config{MaxLocksPerOrigin: 1}, peer.ErrMaxLocksPerOrigin},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarnessOf(t, c.cfg)
			session := peer.CreateSession{Session: h.hash(), Idle: time.Hour, Origin: h.hash()}
			h.must(session)
			acquire := func() peer.Acquire {
				return peer.Acquire{
					Resource: peer.Resource{Pool: h.hash(), Name: "a", Lock: true}, Session: session.Session,
					Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour,
				}
			}
			h.auto = false
			first := h.begin(acquire())
			config, claim := h.take(entry.Config), h.take(entry.Slot)
			h.auto = true
			second := h.begin(acquire())
			h.wantNoAnswer(t, second)
			h.ack(config.ID, peer.Never, 0)
			h.ack(claim.ID, peer.Never, 0)
			h.pass(time.Second)
			h.wantError(first, peer.ErrUnavailable)
			h.granted(second)
			third := h.begin(acquire())
			h.pass(time.Second)
			h.wantError(third, c.most)
		})
	}
}

// A peer is claiming in a semaphore that is in use. That does not count twice, as in use and as
// being opened: there is room for another name.
func TestLockCountsOnce(t *testing.T) {
	h := newHarnessOf(t, peer.Config{MaxLocks: 2})
	acquire := func(pool entry.Hash, name, owner string) peer.Acquire {
		return peer.Acquire{Resource: peer.Resource{Pool: pool, Name: name, Limit: 2}, Lease: h.hash(), Owner: owner, TTL: time.Hour}
	}
	used := h.hash()
	h.must(acquire(used, "a", "o"))
	h.auto = false
	h.begin(acquire(used, "a", "p"))
	h.take(entry.Slot)
	h.auto = true
	h.must(acquire(h.hash(), "b", "o"))
}

// A peer whose view is late answers that a cap is reached only if it is: what the view counts
// may have ended before the request.
func TestCapsInLateView(t *testing.T) {
	t.Run("sessions", func(t *testing.T) {
		for _, cfg := range []peer.Config{{MaxSessions: 1}, {MaxSessionsPerOrigin: 1}} {
			h := newHarnessOf(t, cfg)
			origin, first := h.hash(), h.hash()
			h.must(peer.CreateSession{Session: first, Idle: time.Hour, Origin: origin})
			ended := h.purgeUnseen(rules.SessionKey(first))
			call := h.begin(peer.CreateSession{Session: h.hash(), Idle: time.Hour, Origin: origin})
			h.wantNoAnswer(t, call)
			h.feed(ended)
			h.settle()
			h.granted(call)
			call = h.begin(peer.CreateSession{Session: h.hash(), Idle: time.Hour, Origin: origin})
			if err := h.answers[call].Err; !errors.Is(err, peer.ErrMaxSessions) && !errors.Is(err, peer.ErrMaxSessionsPerOrigin) {
				t.Errorf("beyond the cap: %v", err)
			}
		}
	})
	t.Run("locks", func(t *testing.T) {
		h := newHarnessOf(t, peer.Config{MaxLocks: 1})
		acquire := func() peer.Acquire {
			return peer.Acquire{Resource: peer.Resource{Pool: h.hash(), Name: "a", Lock: true, Limit: 1}, Lease: h.hash(), Owner: "o", TTL: time.Hour}
		}
		first := acquire()
		h.must(first)
		freed := h.purgeUnseen(rules.SlotKey(first.Pool, 0))
		call := h.begin(acquire())
		h.wantNoAnswer(t, call)
		h.feed(freed)
		h.settle()
		h.granted(call)
		h.wantError(h.begin(acquire()), peer.ErrMaxLocks)
	})
	t.Run("waiters", func(t *testing.T) {
		h := newHarnessOf(t, peer.Config{MaxPoolWaiters: 1})
		held := h.borrow(h.newPool(1), 0)
		h.must(held)
		other := rules.SessionKey(h.hash())
		presence := entry.NewMessage(other, entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Hour)}, 0, time.Hour)
		h.feed(h.store(&presence))
		key := entry.Key{Kind: entry.Ticket, Pool: held.Pool, Session: other.Session, N: 1}
		value := entry.TicketValue{
			Lease: h.hash(), Generation: h.configs[entry.Key{Kind: entry.Config, Pool: held.Pool}].Generation, Wait: entry.Span(time.Hour),
		}
		ticket := entry.NewMessage(key, value, 0, time.Hour)
		h.feed(h.store(&ticket))
		left := h.purgeUnseen(key)
		call := h.begin(h.borrow(held.Pool, time.Hour))
		h.wantNoAnswer(t, call)
		h.feed(left)
		h.settle()
		h.wantError(h.begin(h.borrow(held.Pool, time.Hour)), peer.ErrMaxWaiters)
		h.must(giveBack(held))
		h.granted(call)
	})
}

// purgeUnseen stores that another peer has purged a key, and returns the entry, which the
// peer has not seen yet.
func (h *harness) purgeUnseen(key entry.Key) entry.Entry {
	m := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
	return h.store(&m)
}

// The pools of one origin leave room for those of others, also at a peer that loads the bucket.
func TestMaxPoolsPerOrigin(t *testing.T) {
	cfg := peer.Config{MaxPools: 4, MaxPoolsPerOrigin: 2}
	h := newHarnessOf(t, cfg)
	flooder, other := h.hash(), h.hash()
	register := func(origin entry.Hash) peer.Register { return peer.Register{Pool: h.hash(), Count: 1, Origin: origin} }
	first := register(flooder)
	h.must(first)
	h.must(register(flooder))
	h.wantError(h.begin(register(flooder)), peer.ErrMaxPools)
	first.Count = 2
	h.must(first)
	h.must(register(other))

	again := startHarness(t, cfg)
	again.stream, again.last, again.stands = h.stream, h.last, h.stands
	again.catchUp()
	again.wantError(again.begin(register(flooder)), peer.ErrMaxPools)
	again.must(peer.Delete{Pool: first.Pool})
	again.must(register(flooder))
}
