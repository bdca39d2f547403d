package peer_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

func TestReadPool(t *testing.T) {
	h := newHarnessOf(t, peer.Config{ResumeGrace: time.Minute})
	pool := h.newPool(2)
	title := "screens"
	h.must(peer.Register{Pool: pool, Count: 2, Title: &title})
	h.must(peer.Register{Pool: pool, Count: 2}) // keeps it
	var keyed peer.Borrow
	for i := range 2 {
		b := h.borrow(pool, 0)
		b.Label = fmt.Sprint("holder ", i)
		h.must(b)
		h.pass(time.Second)
	}
	for i := range 3 {
		b := h.borrow(pool, time.Hour)
		b.Label, b.Request = fmt.Sprint("waiter ", i), h.hash()
		keyed = h.repeat(b)
		h.begin(keyed)
		h.pass(time.Second)
	}
	d := h.must(peer.ReadPool{Pool: pool, MaxHolders: 9, MaxWaiters: 9}).Detail
	if d.Name != title || d.State != (reads.State{Count: 2, InUse: 2, Waiting: 3}) || len(d.Holders) != 2 || len(d.Waiters) != 3 || d.NextFrom != 0 {
		t.Fatalf("read: %+v", d)
	}
	for i, x := range d.Holders {
		if x.Label != fmt.Sprint("holder ", i) || x.Position != i || x.Fence == 0 || time.Duration(x.Age) < time.Duration(4-i)*time.Second {
			t.Errorf("holder %d: %+v", i, x)
		}
	}
	for i, x := range d.Waiters {
		if x.Label != fmt.Sprint("waiter ", i) || x.Place != i+1 || time.Duration(x.Waited).Round(time.Second) != time.Duration(3-i)*time.Second {
			t.Errorf("waiter %d: %+v", i, x)
		}
	}
	d = h.must(peer.ReadPool{Pool: pool, From: 1, MaxHolders: 1, After: 1, MaxWaiters: 1}).Detail
	if len(d.Holders) != 1 || d.Holders[0].Position != 1 || len(d.Waiters) != 1 || d.Waiters[0].Place != 2 || d.NextFrom != 0 {
		t.Errorf("a page: %+v", d)
	}
	if d = h.must(peer.ReadPool{Pool: pool, MaxHolders: 1}).Detail; d.NextFrom != 1 {
		t.Error("there is another holder")
	}
	if d = h.must(peer.ReadPlace{Pool: pool, Request: keyed.Request}).Detail; len(d.Waiters) != 1 || d.Waiters[0].Place != 3 {
		t.Errorf("the place: %+v", d)
	}
	h.wantError(h.begin(peer.ReadPlace{Pool: pool, Request: h.hash()}), peer.ErrNotInLine)
	h.wantError(h.begin(peer.ReadPlace{Pool: pool}), peer.ErrNotInLine)
	id := h.begin(h.borrow(pool, 0))
	h.wantError(id, peer.ErrNoSlot)
	if a := h.answers[id]; a.Refusal.Place != 4 {
		t.Errorf("refused at place %d", a.Refusal.Place)
	}
}

// Whoever waits in vain learns the place that it had.
func TestPlaceOfARefusal(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(0)
	h.begin(h.borrow(pool, time.Hour))
	second := h.begin(h.borrow(pool, time.Minute))
	h.begin(h.borrow(pool, time.Hour))
	h.pass(2 * time.Minute)
	h.wantError(second, peer.ErrNoSlot)
	if a := h.answers[second]; a.Refusal.Place != 2 {
		t.Errorf("refused at place %d", a.Refusal.Place)
	}
}

func TestSessionLabel(t *testing.T) {
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour, Label: "worker"})
	for _, label := range []string{"", "own"} {
		name := "name " + label
		on := peer.Resource{Pool: entry.HashOf(entry.OfName, name), Name: name, Lock: true}
		h.must(peer.Acquire{Resource: on, Session: session, Lease: h.hash(), TTL: time.Minute, Label: label})
		other := h.hash()
		h.must(peer.CreateSession{Session: other, Idle: time.Hour, Label: "worker"})
		h.must(peer.Enqueue{Resource: on, Session: other, Lease: h.hash(), TTL: time.Minute, Label: label})
		d := h.must(peer.ReadPool{Pool: on.Pool, MaxHolders: 1, MaxWaiters: 1}).Detail
		if want := cmp.Or(label, "worker"); d.Holders[0].Label != want || d.Waiters[0].Label != want {
			t.Errorf("%+v, want %s", d, want)
		}
		h.must(peer.EndSession{Session: session})
		h.pass(time.Second)
		d = h.must(peer.ReadPool{Pool: on.Pool, MaxHolders: 1, MaxWaiters: 1}).Detail
		if want := cmp.Or(label, "worker"); len(d.Holders) != 1 || d.Holders[0].Label != want {
			t.Errorf("after the promotion: %+v, want %s", d, want)
		}
		session = h.hash()
		h.must(peer.CreateSession{Session: session, Idle: time.Hour, Label: "worker"})
	}
}

// The pages of each order have every pool once, in the order of a sort.
func TestReadPools(t *testing.T) {
	h := newHarness(t)
	for i := range 40 {
		pool := h.newPool(i % 4)
		for range i % 7 {
			h.begin(h.borrow(pool, time.Hour))
		}
		h.pass(time.Millisecond)
	}
	short := h.newPool(1)
	b := h.borrow(short, 0)
	b.TTL = time.Second
	h.must(b)
	h.pass(5 * time.Second)
	on, session := h.ownedLock()
	_, _ = on, session
	for _, order := range []peer.Order{peer.ByWaiting, peer.ByOldestWait, peer.ByInUse, peer.ByExpired} {
		all := h.must(peer.ReadPools{Order: order, Max: 1000}).Stats
		if len(all.Pools) != 42 || all.More {
			t.Fatalf("%d pools, more: %v", len(all.Pools), all.More)
		}
		if !slices.IsSortedFunc(all.Pools, func(x, y reads.Pool) int {
			return cmp.Or(cmp.Compare(order.CursorOf(&y).Measure, order.CursorOf(&x).Measure), cmp.Compare(x.Hash.String(), y.Hash.String()))
		}) {
			t.Errorf("order %d: %+v", order, all.Pools)
		}
		var paged []entry.Hash
		for after, more := (peer.Cursor{}), true; more; {
			page := h.must(peer.ReadPools{Order: order, Max: 5, After: after}).Stats
			for i := range page.Pools {
				paged = append(paged, page.Pools[i].Hash)
				after = order.CursorOf(&page.Pools[i])
			}
			more = page.More
		}
		if order == peer.ByOldestWait {
			continue // which grows between two pages
		}
		for i, p := range all.Pools {
			if len(paged) != len(all.Pools) || p.Hash != paged[i] {
				t.Fatalf("order %d: the pages differ from the whole list", order)
			}
		}
	}
	if p := h.must(peer.ReadPools{Order: peer.ByExpired, Max: 1}).Stats.Pools[0]; p.Hash != short || p.Expired != 1 {
		t.Errorf("the most expired: %+v", p)
	}
	for _, p := range h.must(peer.ReadPools{Max: 1000, Waited: true}).Stats.Pools {
		if p.State.Waiting == 0 {
			t.Errorf("nobody waits: %+v", p)
		}
	}
	if found := h.must(peer.ReadPools{Max: 1000, Match: short.String()[:8]}).Stats.Pools; len(found) != 1 {
		t.Errorf("found: %+v", found)
	}
	h.pass(2 * time.Hour)
	if p := h.must(peer.ReadPools{Order: peer.ByExpired, Max: 1}).Stats.Pools[0]; p.Hash == short && p.Expired > 0 {
		t.Errorf("an expiry is remembered for more than an hour")
	}
}
