package peer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A write is settled by its own entry, without any answer.
func TestOwnEntrySettlesWrite(t *testing.T) {
	h, call, claim := newClaim(t)
	claimed := h.store(&claim.Message)
	h.fed(claimed)
	if a := h.granted(call); a.Grant.Fence != claimed.Fence() {
		t.Errorf("granted with fence %d, want %d", a.Grant.Fence, claimed.Fence())
	}
	h.ack(claim.ID, peer.Written, claimed.Revision)
	h.ack(claim.ID, peer.Conflict, claimed.Revision)
	h.passWithout(entry.Key{}, 6*time.Second)
	h.wantReading(1)
}

// A write is settled by another entry of its key above the revision that it expects. An entry
// of another key says nothing about it.
func TestOtherEntrySettlesWrite(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.auto = false
	h.begin(h.borrow(pool, 0))
	if claim := h.take(entry.Slot); claim.Key.N != 0 {
		t.Fatalf("claimed position %d", claim.Key.N)
	}
	h.fed(h.storeBarrier())
	if len(h.sent) != 0 {
		t.Fatalf("the peer writes %+v", h.sent[0].Message)
	}
	other := entry.NewMessage(rules.SlotKey(pool, 0), entry.SlotValue{
		Lease: h.hash(), Claimer: h.hash(), Generation: h.generation(pool), TTL: entry.Span(time.Hour),
	}, 0, time.Hour)
	h.fed(h.store(&other))
	if claim := h.take(entry.Slot); claim.Key.N != 1 {
		t.Errorf("claimed position %d, want the next one", claim.Key.N)
	}
}

// No refusal settles a write: a leader that is cut off may refuse what the stream has. The
// same message is sent again, and settled by the entry of one of the copies.
func TestRefusalDoesNotSettleWrite(t *testing.T) {
	for name, c := range map[string]struct {
		outcome peer.Outcome
		named   func(expected uint64) uint64
		again   time.Duration // when it is sent again; 0: not before resendAfter
		checked bool          // the view is checked
	}{
		"in flight":                     {peer.InFlight, nil, 5 * time.Millisecond, false},
		"not now":                       {peer.NotNow, nil, 50 * time.Millisecond, false},
		"named: what it expects":        {peer.Conflict, func(r uint64) uint64 { return r }, 50 * time.Millisecond, true},
		"named: an earlier one":         {peer.Conflict, func(r uint64) uint64 { return r - 1 }, 50 * time.Millisecond, true},
		"named: none":                   {peer.Conflict, func(uint64) uint64 { return 0 }, 50 * time.Millisecond, true},
		"named: one that is not there":  {peer.Conflict, func(r uint64) uint64 { return r + 2 }, 0, false},
		"the connection is interrupted": {peer.Unknown, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(1)
			h.fed(h.storeBarrier())
			h.auto = false
			call := h.begin(peer.Register{Pool: pool, Count: 2})
			first := h.take(entry.Config)
			ack := peer.Ack{Outcome: c.outcome}
			if c.named != nil {
				ack.Revision = c.named(first.Revision)
			}
			h.p.Acked(first.ID, ack, h.now)
			h.settle()
			h.wantNoAnswer(t, call)
			if c.checked {
				h.wantReading(2)
				h.catchUp()
			} else {
				h.wantReading(1)
			}
			if c.again != 0 && !c.checked {
				h.pass(c.again - time.Millisecond)
				if len(h.sent) != 0 {
					t.Fatalf("sent again after less than %v", c.again)
				}
			}
			sent := func(w peer.Write) bool { return w.Key == first.Key }
			for range 1000 {
				if h.pass(time.Millisecond); slices.ContainsFunc(h.sent, sent) {
					break
				}
				h.catchUp()
			}
			again := h.take(entry.Config)
			if again.ID == first.ID || again.Revision != first.Revision || again.Author != first.Author || string(again.Data) != string(first.Data) {
				t.Errorf("sent %+v, and then %+v", first, again)
			}
			h.wantNoAnswer(t, call)
			e := h.store(&first.Message)
			h.fed(e)
			h.ack(again.ID, peer.Conflict, e.Revision)
			h.ack(first.ID, peer.Written, e.Revision)
			if a := h.granted(call); a.Detail.State.Count != 2 {
				t.Errorf("answered %+v", a)
			}
			h.pass(time.Second)
			if slices.ContainsFunc(h.sent, sent) {
				t.Error("a settled write is sent again")
			}
			h.wantLive()
		})
	}
}

// A write that was not answered is sent again after 500 ms, by any number of copies, until it
// is settled.
func TestUnansweredWriteIsSentAgain(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	call := h.begin(h.borrow(pool, 0))
	var copies []peer.Write
	for range 3 {
		copies = append(copies, h.take(entry.Slot))
		h.pass(499 * time.Millisecond)
		if len(h.sent) != 0 {
			t.Fatal("sent again after less than 500 ms")
		}
		h.pass(time.Millisecond)
	}
	for _, c := range copies[1:] {
		if c.ID == copies[0].ID || c.Revision != copies[0].Revision || c.Author != copies[0].Author {
			t.Errorf("sent %+v, and then %+v", copies[0], c)
		}
	}
	h.ack(copies[1].ID, peer.InFlight, 0)
	h.ack(copies[0].ID, peer.NotNow, 0)
	h.wantNoAnswer(t, call)
	h.publish(&copies[2])
	h.settle()
	h.granted(call)
}

// The marker that a write expects has expired in the stream, as a refusal says that names
// nothing. That settles the write, whatever the view shows.
func TestRefusalOverExpiredMarker(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	b.TTL = 10 * time.Second
	h.must(b)
	h.must(giveBack(b))
	h.pass(11*time.Minute + 15*time.Second) // the view forgets the marker 10 s after its end
	slot := rules.SlotKey(b.Pool, 0)
	delete(h.stands, slot)
	before := h.p.Counters()
	h.auto = false
	call := h.begin(h.borrow(b.Pool, 0))
	over := h.take(entry.Slot)
	if over.Revision == 0 {
		t.Fatal("the view has forgotten the marker already")
	}
	h.publish(&over)
	h.settle()
	claim := h.take(entry.Slot)
	if claim.Revision != 0 {
		t.Errorf("the claim expects revision %d, want none", claim.Revision)
	}
	h.publish(&claim)
	h.settle()
	h.granted(call)
	if n := h.p.Counters(); n.CatchUps != before.CatchUps || n.Rebuilds != 0 {
		t.Errorf("%d catch-ups and %d rebuilds because of a marker", n.CatchUps-before.CatchUps, n.Rebuilds)
	}
}

// A refusal that names nothing, over a marker that cannot have expired, settles nothing: the
// view is checked.
func TestRefusalOverYoungMarker(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(1), 0)
	h.must(b)
	h.must(giveBack(b))
	h.auto = false
	call := h.begin(h.borrow(b.Pool, 0))
	claim := h.take(entry.Slot)
	h.ack(claim.ID, peer.Conflict, 0)
	h.wantReading(2)
	h.catchUp()
	h.pass(100 * time.Millisecond)
	again := h.take(entry.Slot)
	if again.Revision != claim.Revision || again.Author != claim.Author {
		t.Errorf("sent %+v, and then %+v", claim.Message, again.Message)
	}
	h.publish(&again)
	h.settle()
	h.granted(call)
}

// A caller is gone when its claim is on its way. The claim is purged when the view shows it,
// also during a catch-up.
func TestClaimOfCallerThatIsGone(t *testing.T) {
	for _, missed := range []bool{false, true} {
		h, call, claim := newClaim(t)
		pool := claim.Key.Pool
		h.p.GiveUp(call, context.Canceled, h.now)
		h.settle()
		h.wantError(call, context.Canceled)
		claimed := h.store(&claim.Message)
		if missed {
			h.fed(h.storeBarrier())
			h.catchUp()
		} else {
			h.fed(claimed)
		}
		purge := h.take(entry.Slot)
		if !purge.Marker || purge.Revision != claimed.Revision {
			t.Errorf("missed %t: the peer writes %+v, and does not purge the claim at %d", missed, purge.Message, claimed.Revision)
		}
		h.auto = true
		h.publish(&purge)
		h.must(h.borrow(pool, 0))
	}
}

// The outcome of a claim is unknown after 5 s. A purge at the same expected revision, which
// outlives the claim, makes sure that it takes no effect: either the purge is written, or the
// claim was and is purged when it turns up.
func TestUnknownClaimIsFencedOff(t *testing.T) {
	for name, c := range map[string]struct {
		purged bool // the purge is written first
		missed bool // the feed loses the claim
	}{
		"the purge comes first":                 {purged: true},
		"the claim comes first":                 {},
		"the claim turns up during a catch-up":  {missed: true},
		"the purge comes first, and is not fed": {purged: true, missed: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, call, claim := newClaim(t)
			pool := claim.Key.Pool
			h.passWithout(claim.Key, 4990*time.Millisecond)
			h.wantNoAnswer(t, call)
			h.pass(10 * time.Millisecond)
			h.wantError(call, peer.ErrUnavailable)
			purge := h.take(entry.Slot)
			if !purge.Marker || purge.Revision != claim.Revision || purge.TTL < claim.TTL+20*time.Second {
				t.Errorf("sent %+v to fence off %+v", purge.Message, claim.Message)
			}
			first := &claim
			if c.purged {
				first = &purge
			}
			e := h.store(&first.Message)
			if c.missed {
				h.fed(h.storeBarrier())
				h.catchUp()
			} else {
				h.fed(e)
			}
			h.auto = true
			h.publish(&claim)
			h.publish(&purge)
			h.pass(time.Second)
			h.must(h.borrow(pool, 0))
			if text := h.p.Remains(); text != "" {
				t.Error(text)
			}
		})
	}
}

// The same for the ticket of a borrow.
func TestUnknownTicketIsFencedOff(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	held := h.borrow(pool, 0)
	h.must(held)
	h.auto = false
	call := h.begin(h.borrow(pool, time.Hour))
	ticket := h.take(entry.Ticket)
	h.passWithout(ticket.Key, 5*time.Second)
	h.wantError(call, peer.ErrUnavailable)
	purge := h.take(entry.Ticket)
	if !purge.Marker || purge.Key != ticket.Key || purge.Revision != ticket.Revision {
		t.Errorf("sent %+v to fence off %+v", purge.Message, ticket.Message)
	}
	h.fed(h.store(&ticket.Message)) // it was written all the same
	h.auto = true
	h.pass(time.Second)
	if _, g := h.p.Metrics(h.now); g.Waiting != 0 {
		t.Errorf("%d tickets wait", g.Waiting)
	}
	if text := h.p.Remains(); text != "" {
		t.Error(text)
	}
}

// A write was acknowledged after the feed was lost, and the stream has lost it since. Another
// entry has its revision, which the catch-up does not check. The write is not settled: it is
// sent again.
func TestAcknowledgedWriteIsLost(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.pass(4 * time.Second) // the check begins at the last refresh of the presence
	h.auto = false
	call := h.begin(h.borrow(pool, 0))
	claim := h.take(entry.Slot)
	h.breakFeed()
	h.ack(claim.ID, peer.Written, h.last+1)
	h.fed(h.storeBarrier())
	h.catchUp()
	h.wantNoAnswer(t, call)
	again := h.take(entry.Slot)
	if again.Author != claim.Author {
		t.Errorf("%+v is not the claim %+v", again.Message, claim.Message)
	}
	claimed := h.store(&again.Message)
	h.fed(claimed)
	if a := h.granted(call); a.Grant.Fence != claimed.Fence() {
		t.Errorf("granted with fence %d, want %d", a.Grant.Fence, claimed.Fence())
	}
}

// A write is acknowledged at a revision that the view has passed without it. The view is
// checked; and built anew if the stream says so again.
func TestAcknowledgedAtAnotherEntry(t *testing.T) {
	h, call, claim := newClaim(t)
	h.fed(h.storeBarrier())
	h.ack(claim.ID, peer.Written, h.last)
	h.wantReading(2)
	h.wantNotLive()
	h.wantNoAnswer(t, call)
	h.catchUp()
	again := h.take(entry.Slot)
	h.ack(again.ID, peer.Written, h.last-1)
	h.settle()
	h.wantRebuilt()
}

// The view has skipped what overwrote the revision that a write expects, which may have been
// the write itself: its outcome is unknown.
func TestWriteInSkippedEntries(t *testing.T) {
	h, call, claim := newClaim(t)
	pool := claim.Key.Pool
	claimed := h.store(&claim.Message)
	ended := entry.NewPurge(claim.Key, claimed.Revision, rules.MarkerTTL)
	h.fed(h.store(&ended)) // by another peer
	h.wantReading(2)
	h.wantNoAnswer(t, call)
	h.catchUp()
	h.wantError(call, peer.ErrUnavailable)
	h.auto = true
	h.pass(time.Second)
	h.must(h.borrow(pool, 0))
	if text := h.p.Remains(); text != "" {
		t.Error(text)
	}
}

// If what overwrote the expected revision is in the stream, the view knows it after a
// catch-up as well as if the feed had delivered it.
func TestWriteRefusedDuringCatchUp(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.auto = false
	h.begin(h.borrow(pool, 0))
	h.take(entry.Slot)
	h.storeClaim(pool)
	h.fed(h.storeBarrier())
	h.catchUp()
	h.pass(time.Second)
	if claim := h.take(entry.Slot); claim.Key.N == 0 && !claim.Marker {
		t.Errorf("position %d is claimed again", claim.Key.N)
	}
}
