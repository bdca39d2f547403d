package peer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type heldSlot struct {
	pool     entry.Hash
	position int
	fence    uint64
}

// replay applies events to what was read before: the leases, and how many wait in each pool.
func replay(held map[heldSlot]string, waiting map[entry.Hash]int, events []peer.Event) error {
	for _, e := range events {
		at := heldSlot{e.Pool, e.Position, e.Fence}
		switch e.Kind {
		case peer.Granted:
			held[at] = e.Label
		case peer.Returned, peer.LeaseOver, peer.LeaseEvicted, peer.SessionOver:
			if held[at] != e.Label && e.Fence != 0 {
				return fmt.Errorf("the end of a lease that nobody has: %+v", e)
			}
			delete(held, at)
		case peer.Joined:
			waiting[e.Pool]++
		case peer.Left:
			waiting[e.Pool]--
		case peer.Deleted:
			for at := range held {
				if at.pool == e.Pool {
					delete(held, at)
				}
			}
			waiting[e.Pool] = 0
		}
	}
	return nil
}

// The events say who holds each slot, and, but for the borrows that were granted, how the lines
// change.
func TestEventsFollowTheState(t *testing.T) {
	for seed := range uint64(30) {
		h := newHarness(t)
		h.p.Watch(true)
		r := rand.New(rand.NewPCG(seed, 1))
		held, waiting := map[heldSlot]string{}, map[entry.Hash]int{}
		pools := []entry.Hash{h.newPool(2), h.newPool(3)}
		var leases []peer.Held
		session := h.hash()
		h.must(peer.CreateSession{Session: session, Idle: time.Hour, Label: "s"})
		on := peer.Resource{Pool: entry.HashOf(entry.OfName, "n"), Name: "n", Limit: 3}
		pools = append(pools, on.Pool)
		for range 200 {
			pool := pools[r.IntN(2)]
			switch r.IntN(10) {
			case 0, 1, 2:
				b := h.borrow(pool, time.Duration(r.IntN(2))*time.Second*10)
				b.TTL, b.Label = time.Duration(1+r.IntN(10))*time.Second, fmt.Sprint("b", r.IntN(100))
				h.begin(b)
				leases = append(leases, peer.Held{Pool: pool, Lease: b.Lease})
			case 3:
				if len(leases) > 0 {
					h.begin(peer.Return{Held: leases[r.IntN(len(leases))]})
				}
			case 4:
				for at := range held {
					h.begin(peer.Evict{Pool: at.pool, Position: at.position, Fence: at.fence})
					break
				}
			case 5:
				h.begin(peer.SetOut{Pool: pool, Out: entry.Out{Position: r.IntN(3) - 1}, InService: r.IntN(2) == 0})
			case 6:
				h.begin(peer.Acquire{Resource: on, Session: session, Lease: h.hash(), TTL: 5 * time.Second, Wait: 3 * time.Second, Label: "l"})
			case 7:
				if r.IntN(3) == 0 {
					h.must(peer.EndSession{Session: session})
					session = h.hash()
					h.must(peer.CreateSession{Session: session, Idle: time.Hour, Label: "s"})
				}
			case 8:
				if r.IntN(5) == 0 {
					h.must(peer.Delete{Pool: pool})
					h.must(peer.Register{Pool: pool, Count: 2})
				}
			default:
				h.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			if err := replay(held, waiting, h.events); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			h.events = h.events[:0]
			live := map[heldSlot]string{}
			for _, id := range pools {
				call := h.begin(peer.ReadPool{Pool: id, MaxHolders: 99})
				if h.answers[call].Err != nil {
					continue
				}
				for _, x := range h.answers[call].Detail.Holders {
					live[heldSlot{id, x.Position, x.Fence}] = x.Label
				}
			}
			if err := replay(held, waiting, h.events); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			h.events = h.events[:0]
			if fmt.Sprint(live) != fmt.Sprint(held) {
				t.Fatalf("seed %d: by the events %v is held, and by the view %v", seed, held, live)
			}
		}
	}
}

func TestEventKinds(t *testing.T) {
	h := newHarness(t)
	h.newPool(1)
	if len(h.events) > 0 {
		t.Errorf("events that nobody watches: %+v", h.events)
	}
	if h.p.Watch(true) == 0 {
		t.Error("the view is live")
	}
	pool := h.newPool(1)
	b := h.borrow(pool, 0)
	b.TTL, b.Label = time.Second, "a"
	h.must(b)
	waiting := h.begin(h.borrow(pool, time.Minute))
	h.begin(h.borrow(pool, time.Second))
	h.pass(5 * time.Second)
	h.granted(waiting)
	d := h.must(peer.ReadPool{Pool: pool, MaxHolders: 1}).Detail.Holders[0]
	h.must(peer.Evict{Pool: pool, Fence: d.Fence})
	h.must(out(pool, 0, ""))
	h.must(peer.Delete{Pool: pool})
	var kinds []peer.EventKind
	for _, e := range h.events {
		if e.Pool != pool {
			t.Errorf("another pool's: %+v", e)
		}
		kinds = append(kinds, e.Kind)
	}
	want := []peer.EventKind{
		peer.Registered, peer.Granted, peer.Joined, peer.Joined, peer.Left, peer.LeaseOver, peer.Granted, peer.LeaseEvicted, peer.Changed, peer.Deleted,
	}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	h.events = nil
	h.breakFeed()
	h.settle()
	h.pass(time.Second)
	if len(h.events) == 0 || h.events[0].Kind != peer.StartsOver {
		t.Errorf("after a catch-up: %+v", h.events)
	}
}

// When a peer dies, a session that waits by it leaves the line, under its own label. What was
// enqueued stays in the line.
func TestEventsOfADeadPeer(t *testing.T) {
	h := newHarness(t)
	on := peer.Resource{Pool: entry.HashOf(entry.OfName, "n"), Name: "n", Lock: true, Limit: 1}
	holder, waiter := h.hash(), h.hash()
	for _, session := range []entry.Hash{holder, waiter} {
		h.must(peer.CreateSession{Session: session, Idle: time.Hour, Label: "its session"})
	}
	h.must(peer.Acquire{Resource: on, Session: holder, Lease: h.hash(), TTL: time.Hour})
	h.p.Watch(true)
	h.auto = false
	other := rules.SessionKey(h.hash())
	presence := entry.NewMessage(other, entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Hour)}, 0, time.Hour)
	h.feed(h.store(&presence))
	for n, ttl := range []entry.Span{entry.Span(time.Hour), 0} {
		value := entry.TicketValue{
			Lease: h.hash(), Generation: h.generation(on.Pool), Session: waiter, Peer: other.Session, TTL: ttl, Nonce: h.hash(), Wait: entry.Span(time.Hour),
		}
		ticket := entry.NewMessage(entry.Key{Kind: entry.Ticket, Pool: on.Pool, Session: waiter, N: n + 1}, value, 0, time.Hour)
		h.feed(h.store(&ticket))
	}
	h.feed(h.purgeUnseen(other))
	h.settle()
	var got []string
	for _, e := range h.events {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Label))
	}
	want := []string{
		fmt.Sprint(peer.PeerCame, " "), fmt.Sprint(peer.Joined, " its session"), fmt.Sprint(peer.Joined, " its session"),
		fmt.Sprint(peer.PeerWent, " "), fmt.Sprint(peer.Left, " its session"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// A registration or SetOut that overwrites a closing tells what it changes, and nothing else:
// neither the closing nor the restoration changes what readers see.
func TestEventsOverClosing(t *testing.T) {
	for _, over := range []struct {
		name    string
		request func(pool entry.Hash) peer.Request
		want    []peer.EventKind
	}{
		{"another count", func(pool entry.Hash) peer.Request { return peer.Register{Pool: pool, Count: 5} }, []peer.EventKind{peer.Changed}},
		{"the same count", func(pool entry.Hash) peer.Request { return peer.Register{Pool: pool, Count: 1} }, nil},
		{"out of service", func(pool entry.Hash) peer.Request { return out(pool, 0, "") }, []peer.EventKind{peer.Changed}},
	} {
		h := newHarnessOf(t, peer.Config{PoolIdle: time.Hour})
		pool := h.newPool(1)
		h.p.Watch(true)
		h.closePool(pool)
		h.must(over.request(pool))
		var got []peer.EventKind
		for _, e := range h.events {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, over.want) {
			t.Errorf("%s: events %v, want %v", over.name, got, over.want)
		}
	}
}

// A grant is told at the claim, and its end at the purge, whether this peer finds the claim good
// or not: here positions above the count, as a peer claims that has not seen the latest count.
func TestEventsOfVoidClaim(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(1)
	h.p.Watch(true)
	h.feed(h.otherClaim(pool, 1))
	h.pass(3 * time.Second) // any peer purges it after a second
	var got []peer.EventKind
	for _, e := range h.events {
		got = append(got, e.Kind)
	}
	if want := []peer.EventKind{peer.Granted, peer.Withdrawn}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}
