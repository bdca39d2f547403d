package peer_test

import (
	"errors"
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

// A name counts for the caps on all names, on those of a session and on those of an origin, once, while it is in
// use. One that is open and idle under other terms needs room, too.
func TestCapsOnNames(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  peer.Config
		most error
	}{
		"all":     {peer.Config{MaxLocks: 1}, peer.ErrMaxLocks},
		"session": {peer.Config{MaxLocksPerSession: 1}, peer.ErrMaxLocksPerSession},
		"origin":  {peer.Config{MaxLocksPerOrigin: 1}, peer.ErrMaxLocksPerOrigin},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarnessOf(t, c.cfg)
			session := peer.CreateSession{Session: h.hash(), Idle: time.Hour, Origin: h.hash()}
			h.must(session)
			acquire := func(name string, limit int) peer.Acquire {
				return peer.Acquire{
					Resource: peer.Resource{Pool: entry.Terms{Name: name}.Pool(), Name: name, Limit: limit}, Session: session.Session,
					Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour,
				}
			}
			first := acquire("a", 2)
			held := peer.Held{Pool: first.Pool, Lease: first.Lease, Session: session.Session, Named: true, Fence: h.must(first).Grant.Fence}
			h.wantError(h.begin(acquire("b", 2)), c.most)
			h.must(peer.Return{Held: held})
			h.must(acquire("b", 2))
			h.must(acquire("b", 2))
			h.wantError(h.begin(acquire("a", 1)), c.most)
		})
	}
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
