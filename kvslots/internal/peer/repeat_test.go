package peer_test

import (
	"context"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

const grace = 10 * time.Second

// newKeyed returns a harness whose peer keeps places, a pool of one slot, and a borrow of it
// with a request key.
func newKeyed(t *testing.T) (h *harness, b peer.Borrow) {
	t.Helper()
	h = newHarnessOf(t, peer.Config{ResumeGrace: grace})
	b = h.borrow(h.newPool(1), 0)
	b.Request = h.hash()
	return h, h.repeat(b)
}

// repeat returns a borrow with the request key of b. Its claims have leases and nonces of
// their own.
func (h *harness) repeat(b peer.Borrow) peer.Borrow {
	first := h.hash()
	b.LeaseOf = func(n int) (lease, nonce entry.Hash) {
		nonce = first
		nonce[0] += byte(n)
		return entry.HashOf("lease", nonce[:]), nonce
	}
	b.Lease, b.Nonce = b.LeaseOf(0)
	return b
}

func (h *harness) inspect(pool entry.Hash) reads.State {
	return h.must(peer.ReadPool{Pool: pool}).Detail.State
}

func TestRepeatIsAnsweredWithTheLease(t *testing.T) {
	h, b := newKeyed(t)
	first := h.must(b).Grant
	h.pass(20 * time.Minute)
	again := h.must(h.repeat(b)).Grant
	if again.Fence != first.Fence || again.Lease != first.Lease || again.Nonce != first.Nonce {
		t.Errorf("granted %+v, then %+v", first, again)
	}
	if again.TTL > b.TTL-20*time.Minute+time.Second || again.TTL < b.TTL-20*time.Minute {
		t.Errorf("%v of %v are left after 20 minutes", again.TTL, b.TTL)
	}
	if s := h.inspect(b.Pool); s.InUse != 1 {
		t.Errorf("%d slots are in use", s.InUse)
	}
}

// The lease must not end before the time that the first answer has promised.
func TestRepeatDoesNotShortenTheLease(t *testing.T) {
	h, b := newKeyed(t)
	b.TTL = 3*time.Second + 999*time.Microsecond
	b = h.repeat(b)
	g := h.must(b).Grant
	ends := g.At.Add(g.TTL)
	for range 20 {
		h.pass(50*time.Millisecond + 700*time.Microsecond)
		h.must(h.repeat(b))
	}
	for h.now < ends-peer.Instant(time.Millisecond) {
		h.pass(100 * time.Microsecond)
		if h.p.Do(peer.ReadPool{Pool: b.Pool}, h.now); h.stands[slotKey(b.Pool, 0)] == 0 {
			t.Fatalf("purged %v early", ends.Sub(h.now))
		}
	}
	h.pass(2 * time.Second)
	if s := h.inspect(b.Pool); s.InUse != 0 {
		t.Error("the lease is live long after its end")
	}
}

func slotKey(pool entry.Hash, n int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: pool, N: n}
}

func TestKeyIsFreeAfterTheLease(t *testing.T) {
	h, b := newKeyed(t)
	first := h.must(b).Grant
	h.must(peer.Return{Held: peer.Held{Pool: b.Pool, Lease: first.Lease}})
	if again := h.must(h.repeat(b)).Grant; again.Fence <= first.Fence {
		t.Errorf("fence %d after %d", again.Fence, first.Fence)
	}
}

func TestKeyWithOtherTTLIsRefused(t *testing.T) {
	h, b := newKeyed(t)
	h.must(b)
	other := h.repeat(b)
	other.TTL *= 2
	h.wantError(h.begin(other), peer.ErrKeyReused)

	// The lease still has the ttl that was asked for, although a renewal has another one.
	h.must(peer.Renew{Held: peer.Held{Pool: b.Pool, Lease: b.Lease}, TTL: time.Minute})
	h.must(h.repeat(b))
}

func TestOtherTTLWhileWaitingIsRefused(t *testing.T) {
	h, b := newKeyed(t)
	h.must(h.borrow(b.Pool, 0))
	b.Wait = time.Minute
	first := h.begin(b)
	other := h.repeat(b)
	other.TTL *= 2
	h.wantError(h.begin(other), peer.ErrKeyReused)
	if _, answered := h.answers[first]; answered {
		t.Error("the first call is answered")
	}
}

// Another peer's claim with the key is in the stream, but not in the view: the own claim is
// void, and the borrow is answered with the other one.
func TestClaimBesideOneOfItsKey(t *testing.T) {
	h := newHarness(t)
	b := h.borrow(h.newPool(2), 0)
	b.Request = h.hash()
	h.auto = false
	call := h.begin(b)
	own := h.take(entry.Slot)
	value := entry.Parse(own.Key.String(), 1, h.wall(h.now), func(string) string { return "" }, own.Data).Slot
	value.Lease, value.Claimer = h.hash(), h.hash()
	m := entry.NewMessage(own.Key, value, 0, time.Hour)
	claimed := h.store(&m)
	h.auto = true
	h.publish(&own) // refused
	h.feed(claimed)
	h.settle()
	h.pass(time.Second)
	if g := h.granted(call).Grant; g.Lease != value.Lease || g.Fence != claimed.Fence() {
		t.Errorf("granted %+v; want the lease of the other peer", g)
	}
	if s := h.inspect(b.Pool); s.InUse != 1 {
		t.Errorf("%d slots are in use", s.InUse)
	}
}

// The caller has gone with ErrPlaceKept: the ticket stands for the grace, and a repeat is served
// in its place, before one that came later.
func TestPlaceIsKeptForARepeat(t *testing.T) {
	h, b := newKeyed(t)
	holder := h.borrow(b.Pool, 0)
	h.must(holder)
	b.Wait = time.Minute
	first := h.begin(b)
	second := h.begin(h.borrow(b.Pool, time.Minute))
	h.p.GiveUp(first, peer.ErrPlaceKept, h.now)
	h.settle()
	h.wantError(first, peer.ErrPlaceKept)
	h.pass(grace / 2)
	repeat := h.begin(h.repeat(b))
	h.pass(grace) // the grace is over only for a borrow without a caller
	h.must(giveBack(holder))
	h.granted(repeat)
	if _, answered := h.answers[second]; answered {
		t.Error("the later borrow was served")
	}
}

func TestPlaceIsGivenUpAfterTheGrace(t *testing.T) {
	for _, why := range []error{peer.ErrPlaceKept, context.Canceled} {
		h, b := newKeyed(t)
		h.must(h.borrow(b.Pool, 0))
		b.Wait = time.Minute
		first := h.begin(b)
		h.p.GiveUp(first, why, h.now)
		h.pass(grace - time.Second)
		if want := map[bool]int{true: 1}[why == peer.ErrPlaceKept]; h.inspect(b.Pool).Waiting != want {
			t.Errorf("%v: %d places in line before the grace is over, want %d", why, h.inspect(b.Pool).Waiting, want)
		}
		h.pass(2 * time.Second)
		if n := h.inspect(b.Pool).Waiting; n != 0 {
			t.Errorf("%v: %d places in line after the grace", why, n)
		}
	}
}

// The wait is over, and the caller asks again a moment later: it has not lost its place.
func TestPlaceIsKeptAtTheEndOfTheWait(t *testing.T) {
	h, b := newKeyed(t)
	holder := h.borrow(b.Pool, 0)
	h.must(holder)
	b.Wait = time.Second
	first := h.begin(b)
	later := h.begin(h.borrow(b.Pool, time.Minute))
	h.pass(b.Wait + 100*time.Millisecond)
	h.wantError(first, peer.ErrNoSlot)
	second := h.begin(h.repeat(b))
	h.must(giveBack(holder))
	h.granted(second)
	if _, answered := h.answers[later]; answered {
		t.Error("the later borrow was served")
	}

	// One that does not wait leaves the line.
	b.Request, b.Wait = h.hash(), time.Second
	waiting := h.inspect(b.Pool).Waiting
	h.begin(h.repeat(b))
	h.pass(b.Wait + 100*time.Millisecond)
	b.Wait = 0
	leaving := h.begin(h.repeat(b))
	h.wantError(leaving, peer.ErrNoSlot)
	if place := int(h.answers[leaving].Refusal.Place); place != waiting+1 {
		t.Errorf("refused at place %d, want %d", place, waiting+1)
	}
	if n := h.inspect(b.Pool).Waiting; n != waiting {
		t.Errorf("%d places in line, want %d", n, waiting)
	}
}

// A repeat without a wait comes before the peer has noticed that the first caller has gone.
func TestRepeatWithoutAWaitLeavesTheLine(t *testing.T) {
	h, b := newKeyed(t)
	holder := h.borrow(b.Pool, 0)
	h.must(holder)
	b.Wait = time.Minute
	first := h.begin(b)
	h.settle()
	leaving := b
	leaving.Wait = 0
	h.wantError(h.begin(h.repeat(leaving)), peer.ErrNoSlot)
	h.p.GiveUp(first, peer.ErrPlaceKept, h.now)
	h.settle()
	if n := h.inspect(b.Pool).Waiting; n != 0 {
		t.Errorf("%d places in line", n)
	}

	// One that waits comes later.
	first = h.begin(h.repeat(b))
	h.settle()
	h.wantError(h.begin(h.repeat(leaving)), peer.ErrNoSlot)
	second := h.begin(h.repeat(b))
	h.p.GiveUp(first, peer.ErrPlaceKept, h.now)
	h.p.GiveUp(second, peer.ErrPlaceKept, h.now)
	h.settle()
	if n := h.inspect(b.Pool).Waiting; n != 1 {
		t.Errorf("%d places in line, want 1", n)
	}
}

// No slot is lent while no caller is there, and the place delays no other borrow.
func TestAbsentCallerIsNotServed(t *testing.T) {
	for _, other := range []bool{false, true} {
		h, b := newKeyed(t)
		holder := h.borrow(b.Pool, 0)
		h.must(holder)
		b.Wait = time.Minute
		first := h.begin(b)
		h.p.GiveUp(first, peer.ErrPlaceKept, h.now)
		h.settle()
		h.must(giveBack(holder))
		h.pass(grace / 2)
		if s := h.inspect(b.Pool); s.InUse != 0 || s.Waiting != 1 {
			t.Fatalf("%+v while the caller is away", s)
		}
		if other {
			late := h.borrow(b.Pool, 0)
			h.must(late)
			h.must(giveBack(late))
		}
		h.must(h.repeat(b))
		h.pass(2 * grace)
		if s := h.inspect(b.Pool); s.InUse != 1 || s.Waiting != 0 {
			t.Errorf("%+v after the repeat", s)
		}
	}
}

// An answer was decided, and does not reach its caller: the lease is purged, unless a repeat has
// resumed it meanwhile.
func TestUntoldGrantIsTakenBack(t *testing.T) {
	h, b := newKeyed(t)
	a := h.must(b)
	h.p.Untold(&a, peer.ErrPlaceKept, h.now)
	h.settle()
	if s := h.inspect(b.Pool); s.InUse != 0 {
		t.Fatal("the slot is not taken back")
	}
	a = h.must(h.repeat(b))
	again := h.must(h.repeat(b))
	h.p.Untold(&a, peer.ErrPlaceKept, h.now)
	h.pass(time.Second)
	if s := h.inspect(b.Pool); s.InUse != 1 {
		t.Fatal("the slot was taken back although the repeat was answered with it")
	}
	h.must(peer.Return{Held: peer.Held{Pool: b.Pool, Lease: again.Grant.Lease}})
}

// A ticket of a borrow whose callers come again and again outlives its first wait.
func TestTicketOfRepeatsIsWrittenAgain(t *testing.T) {
	h, b := newKeyed(t)
	h.must(peer.Renew{Held: peer.Held{Pool: b.Pool, Lease: h.must(h.borrow(b.Pool, 0)).Grant.Lease}, TTL: 3 * time.Hour})
	b.Wait = time.Minute
	place := h.inspect(b.Pool).Waiting
	for range 40 {
		call := h.begin(h.repeat(b))
		h.pass(b.Wait + time.Second)
		h.wantError(call, peer.ErrNoSlot)
	}
	if n := h.inspect(b.Pool).Waiting; n != place+1 {
		t.Fatalf("%d places in line", n)
	}
	writes := 0
	for _, e := range h.stream {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == b.Pool && !e.Marker {
			if writes++; writes > 1 && e.Ticket.Place == 0 {
				t.Error("the ticket has lost its place")
			}
			if ends := e.Time.Add(e.TTL); writes == 1 && ends.After(h.wall(h.now)) {
				t.Fatal("the first ticket is still alive: the test shows nothing")
			}
		}
	}
}

func TestRegisterWithKey(t *testing.T) {
	h := newHarness(t)
	r := peer.Register{Pool: h.hash(), Count: 4, Request: h.hash()}
	h.must(r)
	h.must(r)
	other := r
	other.Count = 5
	h.wantError(h.begin(other), peer.ErrKeyReused)
	h.must(peer.Register{Pool: r.Pool, Count: 8})
	if s := h.inspect(r.Pool); s.Count != 8 {
		t.Errorf("count %d", s.Count)
	}
}

// A repeat of an Enqueue is answered as the first one, until its lease has ended.
func TestEnqueueWithKey(t *testing.T) {
	h := newHarness(t)
	on, session := h.ownedLock()
	e := peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Minute, Request: h.hash()}
	if !h.must(e).Queued {
		t.Fatal("not queued")
	}
	e.Lease, e.Nonce = h.hash(), h.hash()
	if !h.must(e).Queued {
		t.Error("the repeat is not queued")
	}
	other := e
	other.Request = h.hash()
	h.wantError(h.begin(other), peer.ErrAlreadyEnqueued)
	other = e
	other.TTL *= 2
	h.wantError(h.begin(other), peer.ErrKeyReused)
	h.must(peer.ReleaseOwned{Pool: on.Pool, Owner: "o"})
	g := h.must(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Second}).Grant
	e.Lease, e.Nonce = h.hash(), h.hash()
	if again := h.must(e).Grant; again.Fence != g.Fence || again.Nonce != g.Nonce {
		t.Errorf("granted %+v, then %+v", g, again)
	}
}

// The wait of a repeat ends while the slot that another peer has claimed for its key is in doubt. It is granted that
// slot, and not refused because the pool was full before.
func TestRepeatIsNotRefusedBesideItsSlot(t *testing.T) {
	h, key := newKeyed(t)
	holder := h.borrow(key.Pool, 0)
	h.must(holder)
	key.Wait = 10 * time.Second
	call := h.begin(h.repeat(key))
	h.pass(9900 * time.Millisecond)
	slot := rules.SlotKey(key.Pool, 0)
	freed := entry.NewPurge(slot, h.stands[slot], rules.MarkerTTL)
	purged := h.store(&freed)
	value := entry.SlotValue{
		Lease: h.hash(), Claimer: h.hash(), Generation: h.generation(key.Pool), TTL: entry.Span(key.TTL), Asked: entry.Span(key.TTL), Request: key.Request,
	}
	claim := entry.NewMessage(slot, value, purged.Revision, key.TTL+rules.Guard)
	claimed := h.store(&claim)
	h.feed(purged)
	h.fed(claimed)
	h.pass(3 * time.Second)
	if g := h.granted(call).Grant; g.Lease != value.Lease {
		t.Errorf("granted lease %v, want %v", g.Lease, value.Lease)
	}
}
