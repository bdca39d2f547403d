package peer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// fed delivers an entry by the feed alone.
func (h *harness) fed(entries ...entry.Entry) {
	for i := range entries {
		h.p.Fed(entries[i], h.now)
	}
	h.settle()
}

// storeBarriers stores barriers of other peers, which mean nothing to this one.
func (h *harness) storeBarriers(n int) (entries []entry.Entry) {
	for range n {
		entries = append(entries, h.storeBarrier())
	}
	return entries
}

// wantReading fails the test unless the peer has ordered as many readings as want.
func (h *harness) wantReading(want uint64) {
	h.t.Helper()
	if h.settle(); h.ordered.Number != want {
		h.t.Fatalf("the peer has ordered reading %d, want %d", h.ordered.Number, want)
	}
}

func (h *harness) wantJoined(want int) {
	h.t.Helper()
	if h.settle(); h.joined != want {
		h.t.Fatalf("%d readings are over, want %d", h.joined, want)
	}
}

// loading returns a harness whose first reading has begun, above entries of others. first
// is the presence that the peer has written since.
func loading(t *testing.T) (h *harness, others []entry.Entry, first peer.Write) {
	t.Helper()
	h = startHarness(t, peer.Config{})
	h.auto, h.manual = false, true
	others = h.storeBarriers(3)
	h.settle()
	h.fed(others[2]) // before the reading has begun
	h.beginReading()
	return h, others, h.take(entry.Session)
}

// A reading joins the feed when it has come to the entries that are held, and to the peer's
// presence. The view is live when the feed delivers a presence that was written after that.
func TestReadingJoinsFeed(t *testing.T) {
	h, others, first := loading(t)
	presence := h.store(&first.Message)
	after := h.storeBarriers(2)
	h.fed(presence, after[0])
	h.ack(first.ID, peer.Written, presence.Revision)
	for _, e := range others {
		h.read(e)
	}
	h.wantJoined(0)
	h.read(presence)
	h.wantJoined(1)
	h.wantNotLive()
	second := h.take(entry.Session)
	h.fed(after[1])
	h.fed(presence)
	h.wantNotLive()
	h.publish(&second)
	h.wantLive()
	if n := h.p.Counters(); n.CatchUps != 0 || n.Rebuilds != 0 || h.ordered.Number != 1 {
		t.Errorf("%d checks, %d rebuilds, reading %d", n.CatchUps, n.Rebuilds, h.ordered.Number)
	}
}

// A reading that has not come to the entries that are held does not join. In between there
// may be others that were not fed.
func TestReadingDoesNotJoinBehindGap(t *testing.T) {
	h, others, first := loading(t)
	h.read(others[0])
	presence := h.store(&first.Message)
	unfed := h.storeBarriers(2)
	held := h.storeBarrier()
	h.fed(presence, held) // a jump: the presence is not held any more
	h.read(presence)
	h.wantJoined(0)
	h.read(unfed[0])
	h.wantJoined(0)
	h.read(unfed[1])
	h.wantJoined(1)
}

// A replica that is behind answers a reading. It has not come to the presence that the peer
// wrote when the reading had begun: so it may lack other entries, and does not join.
func TestReadingFromReplicaThatIsBehind(t *testing.T) {
	h, others, first := loading(t)
	h.fed(others[2])
	for _, e := range others {
		h.read(e)
	}
	h.fed(h.storeBarrier())
	h.wantJoined(0)
	presence := h.store(&first.Message)
	h.fed(presence)
	h.ack(first.ID, peer.Written, presence.Revision)
	h.wantJoined(0)
	h.read(h.stream[3])
	h.wantJoined(0)
	h.read(presence)
	h.wantJoined(1)
}

// The same in a catch-up, in which the view has come to the peer's presence before.
func TestCatchUpFromReplicaThatIsBehind(t *testing.T) {
	h := newHarness(t)
	h.auto, h.manual = false, true
	h.breakFeed()
	h.beginReading()
	first := h.take(entry.Session)
	h.readAll()
	h.fed(h.storeBarrier())
	h.read(h.stream[len(h.stream)-1])
	h.wantJoined(1) // the load's
	h.publish(&first)
	h.wantJoined(2)
	h.catchUp()
}

// The feed holds a bounded number of entries during a reading. The reading then has to come
// further.
func TestHeldEntriesOverflow(t *testing.T) {
	const most = 1 << 14 // maxHeld
	h, _, first := loading(t)
	presence := h.store(&first.Message)
	entries := h.storeBarriers(most)
	h.fed(presence)
	h.fed(entries...)
	h.read(presence)
	h.wantJoined(0) // the presence and what came next is not held any more
	for _, e := range entries[:most/2-2] {
		h.read(e)
	}
	h.wantJoined(0)
	h.read(entries[most/2-2])
	h.wantJoined(1)
	h.catchUp()
	if _, g := h.p.Metrics(h.now); g.Revision != h.last {
		t.Errorf("the view is at %d, want %d", g.Revision, h.last)
	}
}

// A jump in the feed begins a catch-up from the peer's last presence on. A write that is
// not the presence waits until the view is live.
func TestJumpBeginsCatchUp(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	from := h.stands[h.presence()]
	h.auto, h.manual = false, true
	h.storeBarrier()
	h.fed(h.storeBarrier())
	h.wantReading(2)
	if h.ordered.From != from {
		t.Errorf("the catch-up reads from %d on, want %d: the presence", h.ordered.From, from)
	}
	h.wantNotLive()
	call := h.begin(h.borrow(pool, 0))
	h.pass(time.Second)
	if len(h.sent) != 0 {
		t.Fatalf("%d writes before the reading has begun", len(h.sent))
	}
	h.beginReading()
	h.readAll()
	h.publishPresence()
	h.publishPresence()
	h.wantLive()
	if n := h.p.Counters(); n.CatchUps != 1 || n.Skips != 0 || n.Rebuilds != 0 {
		t.Errorf("%d checks, %d skips, %d rebuilds", n.CatchUps, n.Skips, n.Rebuilds)
	}
	h.auto = true
	h.settle()
	h.granted(call)
}

// presence returns the key of the peer's presence, which is the first session of the stream.
func (h *harness) presence() entry.Key {
	for _, e := range h.stream {
		if e.Key.Kind == entry.Session {
			return e.Key
		}
	}
	h.t.Fatal("no session was written")
	return entry.Key{}
}

// The server may repeat entries, up to 10 s late, also during a reading.
func TestRepeatedEntriesAreDropped(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	h.must(b)
	old := h.stream
	h.must(giveBack(b))
	h.pass(10 * time.Second)
	h.fed(old...)
	h.wantLive()
	h.auto, h.manual = false, true
	h.breakFeed()
	h.beginReading()
	first := h.take(entry.Session)
	presence := h.store(&first.Message)
	h.fed(presence)
	h.fed(presence)
	h.fed(h.storeBarrier())
	h.fed(presence)
	h.readAll()
	h.fed(old...)
	h.catchUp()
	h.fed(old...)
	if n := h.p.Counters(); n.CatchUps != 1 || n.Rebuilds != 0 {
		t.Errorf("%d checks, %d rebuilds; want the one check", n.CatchUps, n.Rebuilds)
	}
	h.auto = true
	h.must(h.borrow(b.Pool, 0))
}

// An entry that is not the one that the view has at its revision, or that overwrote less than
// the view holds, is of another stream.
func TestFeedOfAnotherStream(t *testing.T) {
	for name, next := range map[string]func(h *harness, key entry.Key) entry.Entry{
		"another key at a revision": func(h *harness, _ entry.Key) entry.Entry {
			e := h.storeBarrier()
			e.Revision = h.last - 2
			return e
		},
		"another time at a revision": func(h *harness, key entry.Key) entry.Entry {
			for _, e := range h.stream {
				if e.Key == key {
					e.Time = e.Time.Add(time.Millisecond)
					return e
				}
			}
			h.t.Fatal("no entry")
			return entry.Entry{}
		},
		"an entry over less": func(h *harness, key entry.Key) entry.Entry {
			m := entry.NewPurge(key, h.stands[key]-1, rules.MarkerTTL)
			return h.store(&m)
		},
		"an entry over nothing": func(h *harness, key entry.Key) entry.Entry {
			m := entry.NewMessage(key, entry.ConfigValue{Count: 1, Generation: 1}, 0, 0)
			return h.store(&m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(1)
			h.fed(h.storeBarrier())
			h.auto = false
			h.fed(next(h, entry.Key{Kind: entry.Config, Pool: pool}))
			h.wantRebuilt()
			h.wantNotLive()
		})
	}
}

// An answer names a revision that does not come by the feed: the feed has lost it. For a
// peer that is alone, nothing else shows that.
func TestNamedRevisionThatIsMissing(t *testing.T) {
	for name, lose := range map[string]func(h *harness, w peer.Write){
		"written": func(h *harness, w peer.Write) {
			h.ack(w.ID, peer.Written, h.store(&w.Message).Revision)
		},
		"refused because of another entry": func(h *harness, w peer.Write) {
			h.ack(w.ID, peer.Conflict, h.storeClaim(w.Key.Pool).Revision)
		},
		"refused because of an earlier copy": func(h *harness, w peer.Write) {
			written := h.store(&w.Message)
			h.pass(600 * time.Millisecond)
			again := h.take(entry.Slot)
			h.ack(again.ID, peer.Conflict, written.Revision)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(2)
			h.auto = false
			call := h.begin(h.borrow(pool, 0))
			lose(h, h.take(entry.Slot))
			h.pass(299 * time.Millisecond)
			h.wantReading(1)
			h.wantNoAnswer(t, call)
			h.pass(time.Millisecond)
			h.wantReading(2)
			h.auto = true
			h.settle()
			h.wantLive()
			h.pass(2 * time.Second)
			h.granted(call)
			if n := h.p.Counters(); n.Rebuilds != 0 {
				t.Errorf("the view was built anew %d times", n.Rebuilds)
			}
		})
	}
}

// What is late by less than that does not begin a catch-up.
func TestNamedRevisionThatIsLate(t *testing.T) {
	h, call, claim := newClaim(t)
	claimed := h.store(&claim.Message)
	h.ack(claim.ID, peer.Written, claimed.Revision)
	h.pass(250 * time.Millisecond)
	h.wantNoAnswer(t, call)
	h.fed(claimed)
	h.granted(call)
	h.pass(100 * time.Millisecond)
	h.wantReading(1)
}

// The feed has lost the presence by which the view would become live.
func TestFeedLosesPresence(t *testing.T) {
	h, _, first := loading(t)
	h.readAll()
	h.publish(&first)
	second := h.take(entry.Session)
	lost := h.store(&second.Message)
	h.ack(second.ID, peer.Written, lost.Revision)
	h.manual = false
	h.pass(299 * time.Millisecond)
	h.wantReading(1)
	h.wantNotLive()
	h.pass(time.Millisecond)
	h.wantReading(2)
	h.catchUp()
}

// The feed has lost the presence with which the reading would join: the peer refreshes it.
func TestFeedLosesPresenceOfReading(t *testing.T) {
	h, _, first := loading(t)
	h.readAll()
	lost := h.store(&first.Message)
	h.read(lost)
	h.auto = true
	h.pass(299 * time.Millisecond)
	h.wantJoined(0)
	h.pass(time.Millisecond)
	h.wantJoined(1)
	h.wantLive()
}

// A reading that could not begin is ordered again after a pause, and one that was lost at
// once. What concerns an earlier reading is ignored.
func TestReadingIsLost(t *testing.T) {
	h := startHarness(t, peer.Config{})
	h.auto, h.manual = false, true
	h.wantReading(1)
	h.breakFeed()
	earlier := h.ordered.Number
	h.wantReading(1)
	h.pass(49 * time.Millisecond)
	h.wantReading(1)
	h.pass(time.Millisecond)
	number := h.ordered.Number
	if number == earlier {
		t.Fatal("no reading was ordered again")
	}
	h.beginReading()
	h.p.ReadingLost(earlier, h.now)
	h.wantReading(number)
	h.breakFeed()
	h.wantReading(number + 1)
	h.beginReading()
	h.readAll()
	h.catchUp()
	h.breakFeed() // after the reading is over, its number stands for the feed
	h.wantReading(number + 2)
	h.wantNotLive()
}

// A reading that has not delivered for 2 s what the stream has acknowledged is ordered again:
// the replica that it reads from may be behind for minutes. Until then the peer writes its
// presence again, which the feed may have lost.
func TestReadingStaysBehind(t *testing.T) {
	h := newHarness(t)
	h.auto, h.manual = false, true
	h.breakFeed()
	h.beginReading()
	acked := h.now
	for h.now.Sub(acked) < 1900*time.Millisecond {
		if h.settle(); len(h.sent) > 0 {
			presence := h.take(entry.Session)
			h.ack(presence.ID, peer.Written, h.store(&presence.Message).Revision)
		}
		h.pass(10 * time.Millisecond)
		h.wantReading(2)
	}
	h.pass(500 * time.Millisecond)
	h.wantReading(3)
	h.beginReading()
	h.readAll()
	h.catchUp()
	if n := h.p.Counters().Rebuilds; n != 0 {
		t.Errorf("the view was built anew %d times", n)
	}
}

// A replica that is behind delivers an entry that was overwritten since, as the view knows.
func TestReadingDeliversOverwrittenEntry(t *testing.T) {
	h := newHarness(t)
	from := h.last
	b := h.borrow(h.newPool(1), 0)
	h.must(b)
	h.must(giveBack(b))
	behind := slices.Clone(h.stream)
	h.auto, h.manual = false, true
	h.breakFeed()
	h.beginReading()
	for _, e := range behind {
		if e.Revision >= h.ordered.From {
			h.read(e)
		}
	}
	h.catchUp()
	if n := h.p.Counters().Rebuilds; n != 0 || h.ordered.From > from {
		t.Errorf("the view was built anew %d times, after a reading from %d", n, h.ordered.From)
	}
}

// A view that has not shown the peer's presence for 6 s is caught up: the feed may be dead,
// and no answer names anything.
func TestSilentFeed(t *testing.T) {
	h := newHarness(t)
	h.auto = false
	h.passWithout(h.presence(), 6*time.Second)
	h.wantReading(1)
	h.passWithout(h.presence(), 4*time.Second)
	h.wantReading(2)
}

// A view that was behind for so long that markers may have come and gone is built anew.
func TestLateViewIsBuiltAnew(t *testing.T) {
	h := newHarness(t)
	h.manual = true
	h.breakFeed()
	h.now = h.now.Add(rules.MarkerTTL)
	h.manual = false
	h.beginReading()
	h.readAll()
	h.pass(time.Second)
	h.wantRebuilt()
	h.wantLive()
}

// A peer closes while it has no feed: its purges are over when they are answered.
func TestCloseWithoutFeed(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.must(h.borrow(pool, 0))
	waits := h.begin(h.borrow(pool, time.Hour))
	h.auto, h.manual = false, true
	h.p.Close(h.now)
	h.settle()
	h.wantError(waits, peer.ErrClosed)
	h.breakFeed()
	if h.p.Idle() {
		t.Fatal("nothing is pending although the ticket stands")
	}
	for _, kind := range []entry.Kind{entry.Ticket, entry.Session} {
		purge := h.take(kind)
		if !purge.Marker {
			t.Errorf("%+v is no purge", purge.Message)
		}
		h.ack(purge.ID, peer.Written, h.store(&purge.Message).Revision)
	}
	if !h.p.Idle() {
		t.Error("the purges were acknowledged, and are pending")
	}
	h.pass(10 * time.Second)
	h.wantReading(1)
	if len(h.sent) != 0 {
		t.Errorf("the closed peer writes %+v", h.sent[0].Message)
	}
}
