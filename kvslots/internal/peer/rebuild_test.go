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

// grantedBeforeRebuild returns a peer that has granted a lease of 10 s and then begun to
// build its view anew, before the answer reached the caller. slot is a lease of an hour at
// the same position and revision: another one, because the stream has lost the first, or
// the same.
func grantedBeforeRebuild(t *testing.T, another bool) (h *harness, a peer.Answer, slot entry.Entry) {
	t.Helper()
	h = newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	b.TTL = 10 * time.Second
	a = h.must(b)
	granted := h.stream[len(h.stream)-1]
	slot = h.slot(b.Pool, a.Grant.Position, h.hash())
	if !another {
		slot.Slot.Lease, slot.Author = b.Lease, granted.Author
	}

	h.loseStream()
	return h, a, slot
}

// slot returns the entry of a lease of an hour at the present revision of a position.
func (h *harness) slot(pool entry.Hash, position int, lease entry.Hash) entry.Entry {
	h.t.Helper()
	key := rules.SlotKey(pool, position)
	value := entry.SlotValue{Lease: lease, Claimer: h.hash(), Generation: h.generation(pool), TTL: entry.Span(time.Hour)}
	claim := entry.NewMessage(key, value, 0, time.Hour+rules.Guard)
	return h.entry(&claim, h.stands[key])
}

// loseStream lets the peer begin to build its view anew.
func (h *harness) loseStream() {
	h.t.Helper()
	h.auto, h.manual = false, true
	h.created = h.wall(h.now)
	h.breakFeed()
	h.beginReading()
	h.settle()
	h.wantRebuilt()
	h.beginReading()
}

// wantRebuilt checks that the view was built anew once.
func (h *harness) wantRebuilt() {
	h.t.Helper()
	if n := h.p.Counters().Rebuilds; n != 1 {
		h.t.Errorf("the view was built anew %d times, want once", n)
	}
}

// load loads the view of a stream that holds a pool and slots of it. The peer then writes
// its presence, which the stream has lost.
func (h *harness) load(pool entry.Hash, slots ...entry.Entry) {
	h.t.Helper()
	config := entry.Key{Kind: entry.Config, Pool: pool}
	registered := entry.NewMessage(config, h.configs[config], 0, 0)
	h.stream = append([]entry.Entry{h.entry(&registered, h.stands[config])}, slots...)
	h.readAll()
	presence := h.take(entry.Session)
	delete(h.stands, presence.Key)
	h.publish(&presence)
	h.auto, h.manual = true, false
	h.settle()
	h.wantLive()
}

// A peer set the end of a lease, or purged it, when the answer reached its caller late or
// never. It did so at the lease's revision, even if it had built its view anew meanwhile:
// then the stream may hold another lease there.
func TestLateAnswerOfLostLease(t *testing.T) {
	for name, finish := range map[string]func(h *harness, a *peer.Answer){
		"told":   func(h *harness, a *peer.Answer) { h.p.Told(a, h.now) },
		"untold": func(h *harness, a *peer.Answer) { h.p.Untold(a, peer.ErrUnavailable, h.now) },
	} {
		for _, loaded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, loaded %t", name, loaded), func(t *testing.T) {
				h, a, slot := grantedBeforeRebuild(t, true)
				if loaded {
					h.load(slot.Key.Pool, slot)
				}
				finish(h, &a)
				if !loaded {
					h.load(slot.Key.Pool, slot)
				}
				h.pass(30 * time.Second)
				if stands := h.stands[slot.Key]; stands != slot.Revision {
					t.Error("another lease, of an hour, was ended within 30 s")
				}
			})
		}
	}
}

func TestUntoldLeaseIsPurgedAfterRebuild(t *testing.T) {
	h, a, slot := grantedBeforeRebuild(t, false)
	h.p.Untold(&a, peer.ErrUnavailable, h.now)
	h.load(slot.Key.Pool, slot)
	if stands := h.stands[slot.Key]; stands == slot.Revision {
		t.Error("the lease was not purged when the view was loaded")
	}
}

// The revision of a late acknowledgement counted as reached, although the stream had lost
// the write and the view was built anew meanwhile. Each answer then seemed to be of a stream
// that had gone back.
func TestLateAcknowledgementOfLostWrite(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	h.p.Do(h.borrow(pool, 0), h.now)
	claim := h.take(entry.Slot)
	h.loseStream()
	h.ack(claim.ID, peer.Written, h.last+9)
	h.load(pool)
	h.must(peer.ReadPool{Pool: pool})
	if err := h.p.Status(h.now); err != nil {
		t.Error(err)
	}
	h.pass(11 * time.Second)
	h.wantRebuilt()
}

// A write was acknowledged, or the view had shown it and was being caught up, and the stream
// lost it before its caller was answered. The answer was that the write stood, although the
// peer had built its view anew meanwhile.
func TestDeletionIsLost(t *testing.T) {
	for _, shown := range []bool{false, true} {
		h := newHarness(t)
		pool := h.newPool(1)
		config := entry.Key{Kind: entry.Config, Pool: pool}
		registered, value := h.stands[config], h.configs[config]
		h.auto = false
		id := h.begin(peer.Delete{Pool: pool})
		deletion := h.take(entry.Config)
		if shown {
			h.breakFeed()
			h.publish(&deletion)
			h.stands[config], h.configs[config], h.sent = registered, value, nil
		} else {
			h.ack(deletion.ID, peer.Written, h.last+9)
		}
		h.loseStream()
		h.load(pool)
		h.wantUnavailable(id)
	}
}

// The same for the purge of a lease.
func TestReturnIsLost(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	slot := h.slot(b.Pool, h.must(b).Grant.Position, b.Lease)
	h.auto = false
	id := h.begin(giveBack(b))
	purge := h.take(entry.Slot)
	h.breakFeed()
	h.publish(&purge)
	h.settle()
	if _, answered := h.answers[id]; answered {
		t.Fatal("answered during a catch-up")
	}
	h.stands[slot.Key], h.sent = slot.Revision, nil
	h.loseStream()
	h.load(b.Pool, slot)
	h.wantUnavailable(id)
}

// wantUnavailable checks that a call was answered ErrUnavailable.
func (h *harness) wantUnavailable(id uint64) {
	h.t.Helper()
	if a, ok := h.answers[id]; !ok || !errors.Is(a.Err, peer.ErrUnavailable) {
		h.t.Errorf("answered %t, %v, want %v", ok, a.Err, peer.ErrUnavailable)
	}
}

// The leader's clock was set forward, and the view is built anew. By that clock, the peer's
// presence is about to expire. The peer dropped it, and wrote no other one until the view was
// loaded; and the view is only loaded when it shows a presence.
func TestPresenceThatIsAboutToExpireWhileLoading(t *testing.T) {
	h := newHarness(t)
	h.loseStream()
	refresh := h.take(entry.Session)
	h.publish(&refresh) // refused: the view does not show the presence yet
	old := h.entry(&refresh.Message, h.stands[refresh.Key])
	old.Time = old.Time.Add(-old.TTL)
	old.Author++ // of an earlier refresh
	h.read(old)
	h.catchUp()
}
