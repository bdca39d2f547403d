package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// rewriteConfig stores a pool's configuration again, by another peer.
func (h *harness) rewriteConfig(pool entry.Hash) entry.Entry {
	key := entry.Key{Kind: entry.Config, Pool: pool}
	m := entry.NewMessage(key, h.configs[key], h.stands[key], 0)
	return h.store(&m)
}

// A peer does not grant its claim that the view applies during a catch-up: it purges the claim,
// and the borrow claims again.
func TestOwnClaimInCatchUpIsWithdrawn(t *testing.T) {
	h, call, claim := newClaim(t)
	h.breakFeed()
	claimed := h.store(&claim.Message)
	h.feed(claimed)
	h.ack(claim.ID, peer.Written, claimed.Revision)
	h.catchUp()
	h.wantNoAnswer(t, call)
	withdrawal := h.take(entry.Slot)
	if !withdrawal.Marker || withdrawal.Revision != claimed.Revision {
		t.Errorf("the peer writes %+v, and does not purge its claim at %d", withdrawal.Message, claimed.Revision)
	}
	h.auto = true
	h.publish(&withdrawal)
	h.pass(time.Second)
	if a := h.granted(call); a.Grant.Fence <= claimed.Fence() {
		t.Errorf("granted with fence %d", a.Grant.Fence)
	}
	if n := h.p.Counters(); n.Voids != 1 {
		t.Errorf("%d claims were void, want one", n.Voids)
	}
}

// otherClaim stores a claim of a position by another peer.
func (h *harness) otherClaim(pool entry.Hash, position int) entry.Entry {
	key := rules.SlotKey(pool, position)
	value := entry.SlotValue{Lease: h.hash(), Claimer: h.hash(), Generation: h.generation(pool), TTL: entry.Span(time.Hour)}
	m := entry.NewMessage(key, value, h.stands[key], time.Hour+rules.Guard)
	return h.store(&m)
}

// Another peer's claim that the view cannot judge may be withdrawn by its peer, which takes less
// than a second. Until then this peer does not say that there is no slot, nor how many are in
// use. It lends the other slots.
func TestOthersClaimInCatchUpIsWaitedFor(t *testing.T) {
	for name, withdrawn := range map[string]bool{"it stays": false, "it is withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(2)
			h.rewriteConfig(pool) // skipped
			h.otherClaim(pool, 0)
			h.rewriteConfig(pool)
			h.fed(h.storeBarrier())
			h.wantLive()
			if a := h.must(h.borrow(pool, 0)); a.Grant.Position != 1 {
				t.Errorf("granted position %d, want 1", a.Grant.Position)
			}
			refused, state := h.begin(h.borrow(pool, 0)), h.begin(peer.ReadPool{Pool: pool})
			h.pass(950 * time.Millisecond)
			h.wantNoAnswer(t, refused)
			h.wantNoAnswer(t, state)
			if withdrawn {
				h.fed(h.storePurge(pool))
			}
			h.pass(150 * time.Millisecond)
			if withdrawn {
				h.granted(refused)
			} else {
				h.wantError(refused, peer.ErrNoSlot)
			}
			if a := h.granted(state); a.Detail.State.InUse != 2 {
				t.Errorf("%+v, want 2 in use", a.Detail.State)
			}
		})
	}
}

// A pool is deleted while a registration that changes nothing waits for a claim in doubt: it is
// answered with the count that it has asked for.
func TestDeletedWhileARegistrationWaitsForAClaim(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.rewriteConfig(pool) // skipped
	h.otherClaim(pool, 0)
	h.rewriteConfig(pool)
	h.fed(h.storeBarrier())
	h.wantLive()
	call := h.begin(peer.Register{Pool: pool, Count: 2})
	h.settle()
	h.wantNoAnswer(t, call)
	h.fed(h.deleteUnseen(pool))
	h.pass(100 * time.Millisecond)
	if a := h.granted(call); a.Detail.State != (reads.State{Count: 2, Available: 2}) {
		t.Errorf("answered %+v", a.Detail)
	}
}

// A view that has caught up knows what it skipped from what is in the stream: leases that
// were returned and lent again, and places in line.
func TestViewAfterCatchUp(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	held := h.borrow(pool, 0)
	h.must(held)
	h.must(h.borrow(pool, 0))
	waits := h.begin(h.borrow(pool, time.Hour))
	h.auto, h.manual = false, true
	h.breakFeed()
	h.storePurge(pool)
	h.otherClaim(pool, 0)
	h.storePurge(pool)
	h.beginReading()
	h.readAll()
	h.wantNoAnswer(t, waits)
	h.catchUp()
	claim := h.take(entry.Slot)
	if claim.Key.N != 0 || claim.Marker {
		t.Errorf("the waiting borrow writes %+v, and does not claim position 0", claim.Message)
	}
	h.publish(&claim)
	h.settle()
	if a := h.granted(waits); !a.Grant.Queued {
		t.Errorf("granted %+v", a.Grant)
	}
	if n := h.p.Counters(); n.Skips == 0 || n.Rebuilds != 0 {
		t.Errorf("%d entries were skipped, %d rebuilds", n.Skips, n.Rebuilds)
	}
}

// During a catch-up nothing is granted, refused or ended; renewals and returns wait as well.
// Only the presence is written: another entry may have the revision that a write expects.
func TestNothingIsDecidedDuringCatchUp(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	held := h.borrow(pool, 0)
	held.TTL = 2 * time.Second
	h.must(held)
	h.auto = false
	sent := h.begin(peer.Register{Pool: h.hash(), Count: 1})
	h.take(entry.Config) // it is lost, and so is the presence
	h.breakFeed()
	presence := h.take(entry.Session)
	calls := []uint64{
		sent,
		h.begin(peer.Renew{Held: giveBack(held).Held, TTL: time.Hour}), h.begin(h.borrow(pool, 0)),
		h.begin(giveBack(held)), h.begin(peer.ReadPool{Pool: pool}), h.begin(peer.Register{Pool: pool, Count: 2}),
	}
	for range 40 {
		h.pass(100 * time.Millisecond)
		h.settle()
		for _, w := range h.sent {
			if w.Key != presence.Key {
				t.Fatalf("the peer writes %+v", w.Message)
			}
		}
		h.sent = nil
	}
	for _, call := range calls {
		h.wantNoAnswer(t, call)
	}
	h.auto = true
	h.pass(900 * time.Millisecond)
	h.wantLive()
	for _, call := range calls {
		if _, answered := h.answers[call]; !answered {
			t.Errorf("call %d is not answered", call)
		}
	}
}

// No session ends while the stream may have taken no writes, as the peer's presence shows
// that it has not seen for 4 s: a client could not refresh it. When the stream takes writes
// again, the session has its whole idle time.
func TestSessionsOutliveTimeWithoutStream(t *testing.T) {
	for name, barriers := range map[string]bool{"nothing is answered": false, "read barriers are answered": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.wantSessionOutlives(h.othersSession(), 5900*time.Millisecond, func(w *peer.Write) {
				if w.Key != h.presence() && barriers {
					h.publish(w)
				}
			}, func() {})
		})
	}
}

// The same when no reading could begin meanwhile.
func TestSessionsOutliveTimeWithoutReading(t *testing.T) {
	h := newHarness(t)
	session := h.othersSession()
	h.manual = true
	h.breakFeed()
	h.wantSessionOutlives(session, time.Minute, func(*peer.Write) {
		t.Fatal("the peer writes before the reading has begun")
	}, func() {
		h.manual = false
		h.beginReading()
		h.readAll()
	})
}

const sessionIdle = 5 * time.Second

// othersSession shows the peer a client session of another peer, and returns its key.
func (h *harness) othersSession() entry.Key {
	key := rules.SessionKey(h.hash())
	m := entry.NewMessage(key, entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(sessionIdle)}, 0, time.Hour)
	h.fed(h.store(&m))
	return key
}

// wantSessionOutlives fails the test if a session ends while the stream takes no writes, as
// answer is to see to, or within its idle time after that, which begins with then.
func (h *harness) wantSessionOutlives(key entry.Key, without time.Duration, answer func(*peer.Write), then func()) {
	h.t.Helper()
	alive := h.stands[key]
	h.auto = false
	for end := h.now.Add(without); h.now < end; h.pass(10 * time.Millisecond) {
		writes := h.sent
		h.sent = nil
		for i := range writes {
			if writes[i].Key == key {
				h.t.Fatal("the session is ended while the stream takes no writes")
			}
			answer(&writes[i])
		}
	}
	h.auto = true
	then()
	h.pass(sessionIdle)
	if h.stands[key] != alive {
		h.t.Error("the session has ended within its idle time")
	}
	h.pass(3 * time.Second)
	if h.stands[key] == alive {
		h.t.Error("the session has not ended")
	}
}

// An own claim that was taken for lost turns up when the feed delivers it late, or during a
// catch-up. A caller was told "unavailable", so it is purged. The leases of a peer that began
// again are no such claims: another peer wrote them.
func TestOrphanedClaimIsPurged(t *testing.T) {
	for name, c := range map[string]struct{ missed, dead bool }{
		"late": {}, "during a catch-up": {missed: true}, "after the peer was taken for dead": {dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, call, claim := newClaim(t)
			pool := claim.Key.Pool
			h.ack(claim.ID, peer.Never, 0) // a leader that was deposed
			h.settle()
			h.wantError(call, peer.ErrUnavailable)
			if c.dead {
				h.endPresence()
			}
			claimed := h.store(&claim.Message)
			if c.missed {
				h.fed(h.storeBarrier())
				h.catchUp()
			} else {
				h.fed(claimed)
			}
			purge := h.take(entry.Slot)
			if !purge.Marker || purge.Revision != claimed.Revision {
				t.Errorf("the peer writes %+v, and does not purge its claim at %d", purge.Message, claimed.Revision)
			}
			h.publish(&purge)
			h.auto = true
			h.must(h.borrow(pool, 0))
		})
	}
}

// endPresence stores and feeds the purge of the peer's presence, by another peer.
func (h *harness) endPresence() {
	ended := entry.NewPurge(h.presence(), h.stands[h.presence()], rules.MarkerTTL)
	h.fed(h.store(&ended))
	h.publishPresence()
}
