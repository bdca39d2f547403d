package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// newKeyedTwice returns what newKeyed does, with another peer on the stream.
func newKeyedTwice(t *testing.T) (a, b *harness, key peer.Borrow) {
	t.Helper()
	a, key = newKeyed(t)
	return a, a.join(peer.Config{ResumeGrace: grace}), key
}

// A late copy of the first request comes after its lease was renewed.
func TestRepeatDoesNotUndoARenewal(t *testing.T) {
	a, b, key := newKeyedTwice(t)
	key.TTL = 5 * time.Second
	held := peer.Held{Pool: key.Pool, Lease: a.must(a.repeat(key)).Grant.Lease}
	a.must(peer.Renew{Held: held, TTL: time.Minute})
	for _, h := range [2]*harness{a, b} {
		if g := h.must(h.repeat(key)).Grant; g.TTL < 59*time.Second {
			t.Errorf("answered with %v of a minute", g.TTL)
		}
		h.pass(10 * time.Millisecond)
	}
	a.pass(50 * time.Second)
	b.wantError(b.begin(b.borrow(key.Pool, 0)), peer.ErrNoSlot)
	a.pass(15 * time.Second)
	b.must(b.borrow(key.Pool, 0))
}

// The leader's clock is set forward while a peer is away. What that peer loads seems older than it is.
func TestRepeatAfterALoadByAWrongClock(t *testing.T) {
	a, key := newKeyed(t)
	key.TTL = 2 * time.Minute
	lease := a.must(a.repeat(key)).Grant.Lease
	a.pass(time.Second)
	a.ahead = 90 * time.Second
	b := a.join(peer.Config{ResumeGrace: grace})
	for range 2 { // before and after b has heard a
		if g := b.must(b.repeat(key)).Grant; g.Lease != lease || g.TTL < key.TTL-5*time.Second {
			t.Errorf("%v of %v are left", g.TTL, key.TTL)
		}
		a.pass(4 * time.Second)
	}
	a.pass(key.TTL - 10*time.Second)
	a.wantError(a.begin(a.borrow(key.Pool, 0)), peer.ErrNoSlot)
}

// A place outlives the first life of its ticket for as long as callers wait there.
func TestTicketIsWrittenAgainWhileCallersWait(t *testing.T) {
	h, key := newKeyed(t)
	holder := h.borrow(key.Pool, 0)
	holder.TTL = 3 * time.Hour
	h.must(holder)
	key.Wait = time.Minute
	h.begin(h.repeat(key))
	key.Wait = 60 * time.Minute
	call := h.begin(h.repeat(key))
	h.pass(time.Second)
	later := h.begin(h.borrow(key.Pool, 2*time.Hour))
	h.pass(50 * time.Minute)
	h.must(giveBack(holder))
	h.granted(call)
	if _, answered := h.answers[later]; answered {
		t.Error("the later borrow was served")
	}
}

// The caller comes back at another gateway: the repeat waits in its place, and is served there at once,
// before a borrow that came between.
func TestRepeatElsewhereKeepsItsPlace(t *testing.T) {
	for _, tc := range []struct {
		name          string
		returns, dies bool // the caller was at this gateway before; the other one dies
	}{
		{"the first gateway knows that its caller has gone", false, false},
		{"the first gateway dies", false, true},
		{"the caller has been here before", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b, key := newKeyedTwice(t)
			holder := a.borrow(key.Pool, 0)
			b.must(holder)
			key.Wait = 10 * time.Minute
			if tc.returns {
				b.begin(b.repeat(key))
			}
			first := a.begin(a.repeat(key))
			between := b.begin(b.borrow(key.Pool, time.Hour))
			a.pass(time.Second)
			if !tc.dies {
				a.p.GiveUp(first, peer.ErrPlaceKept, a.now)
				a.settle()
				a.pass(grace / 2)
			}
			repeat := b.begin(b.repeat(key))
			if tc.dies {
				b.beside = nil // nothing of the other peer comes any more, and its presence still lives
				b.pass(100 * time.Millisecond)
			} else {
				b.pass(2 * grace)
			}
			if d := b.must(peer.ReadPlace{Pool: key.Pool, Request: key.Request}).Detail; len(d.Waiters) != 1 || d.Waiters[0].Place != 1 {
				t.Fatalf("the repeat waits at %+v", d.Waiters)
			}
			b.must(giveBack(holder))
			b.pass(100 * time.Millisecond)
			b.granted(repeat)
			if _, answered := b.answers[between]; answered {
				t.Error("the later borrow was served")
			}
		})
	}
}

// The ticket was written again before the view is built anew: it still has its first place.
func TestExtendedTicketIsServedAfterALoad(t *testing.T) {
	h, key := newKeyed(t)
	holder := h.borrow(key.Pool, 0)
	h.must(holder)
	key.Wait = time.Minute
	h.begin(h.repeat(key))
	key.Wait = 40 * time.Minute
	call := h.begin(h.repeat(key))
	h.pass(time.Second)
	h.created = h.created.Add(time.Second) // another stream, with the same entries
	h.breakFeed()
	h.pass(5 * time.Second)
	h.wantRebuilt()
	h.must(giveBack(holder))
	h.pass(time.Second)
	h.granted(call)
}

func TestRepeatOfARegistrationDoesNotUndoALaterOne(t *testing.T) {
	for _, between := range []bool{false, true} { // the later one has a key, too
		h := newHarness(t)
		first := peer.Register{Pool: h.hash(), Count: 2, Request: h.hash()}
		later := peer.Register{Pool: first.Pool, Count: 5}
		if between {
			later.Request = h.hash()
		}
		h.must(first)
		h.must(later)
		if s := h.must(first).Detail.State; s.Count != 5 {
			t.Errorf("the repeat is answered with count %d", s.Count)
		}
		if s := h.inspect(first.Pool); s.Count != 5 {
			t.Errorf("count %d after the repeat", s.Count)
		}
		first.Count = 3
		h.wantError(h.begin(first), peer.ErrKeyReused)
	}
}

// The slot of the key is claimed at another peer while this one writes a ticket for a repeat.
func TestRepeatFindsItsSlot(t *testing.T) {
	a, b, key := newKeyedTwice(t)
	holder := a.borrow(key.Pool, 0)
	a.must(holder)
	key.Wait = time.Minute
	b.auto = false
	repeat := b.begin(b.repeat(key))
	ticket := b.take(entry.Ticket)
	a.must(giveBack(holder))
	lease := a.must(a.repeat(key)).Grant.Lease
	b.auto = true
	b.publish(&ticket)
	b.settle()
	if g := b.granted(repeat).Grant; g.Lease != lease {
		t.Errorf("granted %+v", g)
	}
}

// newLine returns two peers, and the holder of a pool's slot at b. In line are a call with a
// request key at a, and one without a key at b, which came later.
func newLine(t *testing.T) (a, b *harness, key, holder peer.Borrow, first, later uint64) {
	t.Helper()
	a, b, key = newKeyedTwice(t)
	holder = b.borrow(key.Pool, 0)
	b.must(holder)
	key.Wait = 10 * time.Minute
	first = a.begin(a.repeat(key))
	later = b.begin(b.borrow(key.Pool, time.Hour))
	a.pass(time.Second)
	return a, b, key, holder, first, later
}

// tickets returns the tickets that were written with a request key.
func (h *harness) tickets(request entry.Hash) (all []entry.Entry) {
	for _, e := range h.stream {
		if e.Key.Kind == entry.Ticket && e.Ticket.Request == request {
			all = append(all, e)
		}
	}
	return all
}

// A repeat at another peer, while the first call waits, writes its ticket once. Both are answered
// with one lease, in their turn.
func TestRepeatBesideALivePeer(t *testing.T) {
	a, b, key, holder, first, later := newLine(t)
	repeat := b.begin(b.repeat(key))
	b.pass(time.Second)
	if n := len(b.tickets(key.Request)); n != 2 {
		t.Errorf("%d tickets were written", n)
	}
	b.must(giveBack(holder))
	b.pass(time.Second)
	if x, y := a.granted(first).Grant, b.granted(repeat).Grant; x.Lease != y.Lease {
		t.Errorf("granted %+v and %+v", x, y)
	}
	b.wantNoAnswer(t, later)
}

// A repeat has taken the place of the first call. When the repeat is given up, or its peer dies, the
// first call is served there.
func TestPlaceIsTakenBack(t *testing.T) {
	for _, dies := range []bool{false, true} {
		a, b, key := newKeyedTwice(t)
		holder := b.borrow(key.Pool, 0)
		b.must(holder)
		key.Wait = time.Hour
		first := b.begin(b.repeat(key))
		later := b.begin(b.borrow(key.Pool, time.Hour))
		b.pass(time.Second)
		repeat := a.begin(a.repeat(key))
		a.pass(time.Second)
		if dies {
			b.beside = nil // nothing of the other peer comes any more
			b.pass(15 * time.Second)
		} else {
			a.p.GiveUp(repeat, peer.ErrPlaceKept, a.now)
			a.settle()
			a.pass(time.Second)
		}
		b.must(giveBack(holder))
		b.pass(100 * time.Millisecond)
		b.granted(first)
		b.wantNoAnswer(t, later)
	}
}

// The presence of the first call's peer ends while that waits: it keeps its place.
func TestPlaceOutlivesPresence(t *testing.T) {
	a, b, key, holder, first, later := newLine(t)
	presence := rules.SessionKey(b.tickets(key.Request)[0].Key.Session)
	purge := entry.NewPurge(presence, b.stands[presence], rules.MarkerTTL)
	b.feed(b.store(&purge))
	b.pass(5 * time.Second)
	b.must(giveBack(holder))
	b.pass(time.Second)
	a.granted(first)
	b.wantNoAnswer(t, later)
}

// The first answer reaches its caller late, and has promised all of the time from then on. A repeat
// at another peer was told before.
func TestToldRepeatDoesNotShortenTheLease(t *testing.T) {
	a, b, key := newKeyedTwice(t)
	key.TTL = 5 * time.Second
	first := a.must(a.repeat(key))
	again := b.must(b.repeat(key))
	b.p.Told(&again, b.now)
	a.pass(900 * time.Millisecond)
	a.p.Told(&first, a.now)
	a.pass(key.TTL - 500*time.Millisecond)
	if n := a.inspect(key.Pool).InUse; n != 1 {
		t.Errorf("ended %v before the time that the first answer has promised", first.Grant.At.Add(first.Grant.TTL).Sub(a.now))
	}
}
