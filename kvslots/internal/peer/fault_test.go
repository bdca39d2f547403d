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

// A late refusal hid an entry that the view had skipped, and a claim was judged good
// without it: three slots of a pool of two were lent. A refusal only names the key's
// revision; it does not account for skipped entries.
func TestFault7LateRefusalHidesSkip(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("early %t", early), func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(2)
			first := h.borrow(pool, 0)
			h.must(first)
			h.auto = false

			// This peer changes the count and claims slot 1. Another peer has lowered
			// the count to 1 before, which this peer's view skips, since a third write
			// of the same key comes right after the claim.
			register := h.p.Do(peer.Register{Pool: pool, Count: 3}, h.now)
			change := h.take(entry.Config)
			call := h.p.Do(h.borrow(pool, 0), h.now)
			claim := h.take(entry.Slot)
			lowered := entry.NewMessage(change.Key, configOf(h, &change, 1), change.Revision, 0)
			skipped := h.store(&lowered)
			claimed := h.store(&claim.Message)
			raised := entry.NewMessage(change.Key, configOf(h, &change, 2), skipped.Revision, 0)
			after := h.store(&raised)

			if early {
				h.ack(change.ID, peer.Conflict, skipped.Revision)
			}
			h.feed(claimed) // a jump: the lowered count was skipped
			h.ack(claim.ID, peer.Written, claimed.Revision)
			if !early {
				h.ack(change.ID, peer.Conflict, skipped.Revision)
			}
			h.settle()
			if a, answered := h.answers[call]; answered {
				t.Fatalf("answered %+v in a view that has skipped an entry", a)
			}
			h.feed(after)
			h.auto = true
			h.settle()
			h.pass(2 * time.Second)
			a, answered := h.answers[call]
			if !answered || a.Err == nil && a.Grant.Fence == claimed.Revision {
				t.Errorf("answered %t, %+v: the claim was void when it was written", answered, a)
			}
			h.wantError(register, peer.ErrUnavailable) // it may have been written, and overwritten
		})
	}
}

// configOf returns the configuration of a write, with another count.
func configOf(h *harness, w *peer.Write, count int) entry.ConfigValue {
	e := h.entry(&w.Message, 1)
	value := e.Config
	value.Count = count
	return value
}

// growth is how many more allocations an operation may take among many than among
// few.
const growth = 8

// constant checks that an operation costs no more among many than among few: it compares
// allocations, and how many statements of packages peer and rules are executed. Neither
// depends on how busy the machine is. prepare returns the operation for a peer with n of
// something.
func constant(t *testing.T, few, many int, prepare func(h *harness, n int) func()) {
	t.Helper()
	if many < 20*few {
		t.Fatalf("%d are not many beside %d", many, few)
	}
	if countsWork(t, prepare) {
		return
	}
	allocations := func(n int) float64 { return testing.AllocsPerRun(50, prepare(newHarness(t), n)) }
	small, large := allocations(few), allocations(many)
	t.Logf("%v allocations among %d, %v among %d", small, few, large, many)
	if large > small+growth {
		t.Errorf("%v allocations among %d, but %v among %d", small, few, large, many)
	}
	compareWork(t, few, many)
}

// A hand-over took 4.9 ms with 4,000 waiters: each event looked at all of them.
func TestFault12HandOverInLongLine(t *testing.T) {
	constant(t, 60, 1200, func(h *harness, n int) func() {
		pool := h.newPool(1)
		held := h.borrow(pool, 0)
		h.must(held)
		var line []peer.Borrow
		var calls []uint64
		for range n {
			b := h.borrow(pool, time.Hour)
			line, calls = append(line, b), append(calls, h.begin(b))
		}
		return func() {
			h.must(giveBack(held))
			h.granted(calls[0])
			held, line, calls = line[0], line[1:], calls[1:]
		}
	})
}

// Each event looked at every await, whatever its lock.
func TestFault12EventsAmongManyAwaits(t *testing.T) {
	constant(t, 50, 1500, func(h *harness, n int) func() {
		holder := h.hash()
		h.must(peer.CreateSession{Session: holder, Idle: 10 * time.Hour})
		for i := range n {
			on := peer.Resource{Pool: h.hash(), Name: fmt.Sprint(i), Lock: true, Limit: 1}
			h.must(peer.Acquire{Resource: on, Session: holder, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour})
			session := h.hash()
			h.must(peer.CreateSession{Session: session, Idle: 10 * time.Hour})
			h.must(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour})
			h.begin(peer.Await{Pool: on.Pool, Session: session, Lock: true, Wait: time.Hour})
		}
		pool := h.newPool(1)
		return func() {
			b := h.borrow(pool, 0)
			h.must(b)
			h.must(giveBack(b))
		}
	})
}

// 8,000 borrows that joined together took 3.6 s: each looked at all before it.
func TestFault12ManyJoin(t *testing.T) {
	cost := func(n int) float64 {
		return testing.AllocsPerRun(1, func() {
			h := newHarness(t)
			pool := h.newPool(1)
			h.must(h.borrow(pool, 0))
			h.auto = false
			for range n {
				h.p.Do(h.borrow(pool, time.Hour), h.now)
			}
			h.auto = true
			h.settle()
		}) / float64(n)
	}
	small, large := cost(100), cost(8000)
	t.Logf("%v allocations each when 100 join, %v when 8000 do", small, large)
	if large > small+growth {
		t.Errorf("joining takes %v allocations each for 100 borrows, and %v for 8000", small, large)
	}
}

// Each wake-up walked all pools that had been used: 297 ms in one Apply at 32,000
// pools.
func TestFault12ManyIdlePools(t *testing.T) {
	constant(t, 100, 4000, func(h *harness, n int) func() {
		for i := range n {
			b := h.borrow(h.newPool(1), 0)
			if i%10 == 0 { // all of them take too long to prepare
				h.must(b)
				h.must(giveBack(b))
			}
		}
		pool := h.newPool(1)
		return func() {
			b := h.borrow(pool, 0)
			h.must(b)
			h.p.Tick(h.now)
			h.must(giveBack(b))
		}
	})
}

// An entry of a pool without pending work, and an empty Ready, do not allocate.
func TestFault12FedDoesNotAllocate(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(4)
	config, _ := h.stands[entry.Key{Kind: entry.Config, Pool: pool}]
	if config == 0 {
		t.Fatal("no configuration")
	}
	var entries []entry.Entry
	for i := range 4000 {
		key := rules.SlotKey(pool, i/2%4)
		m := entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
		if i%2 == 0 {
			value := entry.SlotValue{Lease: h.hash(), Claimer: h.hash(), Generation: 1, TTL: entry.Span(time.Hour)}
			m = entry.NewMessage(key, value, h.stands[key], time.Hour+rules.Guard)
		}
		entries = append(entries, h.store(&m))
	}
	i := 0
	next := func() {
		h.feed(entries[i])
		i++
		h.p.Ready()
	}
	for range 1000 {
		next()
	}
	if n := testing.AllocsPerRun(2000, next); n > 0.5 {
		t.Errorf("Fed and Ready allocate %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { h.p.Ready() }); n > 0 {
		t.Errorf("an empty Ready allocates %v times", n)
	}
}

// While a purge was unanswered, every refusal had to wait, so that a borrow without a
// wait was answered after up to 2.35 s. (TestFault16RefusedAtOnceInBusyPool of package
// sim tests it under load.)
func TestFault16PurgeInFlightHoldsUpRefusal(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	first, second := h.borrow(pool, 0), h.borrow(pool, 0)
	h.must(first)
	h.must(second)
	h.auto = false
	h.begin(giveBack(first)) // its purge is never answered
	h.take(entry.Slot)
	call := h.begin(h.borrow(pool, 0))
	barrier := h.take(entry.Barrier)
	h.publish(&barrier)
	h.settle()
	if a := h.answers[call]; !errors.Is(a.Err, peer.ErrNoSlot) {
		t.Errorf("%+v", a)
	}
}
