package rules_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// checkTotals compares what the view adds up as it goes with sums over the naive model.
func (h *history) checkTotals() {
	var registered, named rules.Totals
	waiting := 0
	for i := range historyPools {
		id := poolID(i)
		c, live, standing := h.naive.config(id), len(h.naive.live(id)), len(h.naive.standing(id))
		waiting += standing
		switch one := (rules.Totals{Pools: 1, Capacity: c.Count, InUse: live}); {
		case c.Generation == 0:
		case !c.Named():
			registered = sum(registered, one)
		case live+standing+len(c.Out) > 0:
			named = sum(named, one)
		}
	}
	if h.view.Registered != registered || h.view.InNames != named {
		h.t.Fatalf("registered %+v, named %+v; want %+v, %+v", h.view.Registered, h.view.InNames, registered, named)
	}
	listed := 0
	for range h.view.PoolsAfter(entry.Hash{}) {
		listed++
	}
	if names := len(h.view.NamesInUse()); names != named.Pools || listed != registered.Pools {
		h.t.Fatalf("%d names and %d registered pools are listed; want %d, %d", names, listed, named.Pools, registered.Pools)
	}
	if got, _ := h.view.Lines(); got != waiting {
		h.t.Fatalf("%d tickets stand in lines; want %d", got, waiting)
	}
}

func sum(x, y rules.Totals) rules.Totals {
	return rules.Totals{Pools: x.Pools + y.Pools, Capacity: x.Capacity + y.Capacity, InUse: x.InUse + y.InUse}
}

// register applies the configuration of a registered pool, or of an unregistered one.
func register(v *rules.View, id entry.Hash, registered bool) {
	e := entry.Entry{Key: entry.Key{Kind: entry.Config, Pool: id}, Revision: v.Revision + 1, Time: time.Unix(1_790_000_000, 0)}
	e.Previous, _ = v.Latest(e.Key)
	if e.Marker = !registered; registered {
		e.Config = entry.ConfigValue{Count: 1, Generation: e.Revision}
	}
	v.Apply(&e, 0, rules.Instant(time.Hour))
	v.Touched()
}

// PoolsAfter finds what sorting all registered pools would find.
func TestPoolsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		view, want := newView(), map[entry.Hash]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "entries") {
			id := entry.Hash{byte(rapid.IntRange(0, 3).Draw(t, "part")), byte(rapid.IntRange(1, 8).Draw(t, "pool"))}
			registered := rapid.Bool().Draw(t, "registered")
			register(view, id, registered)
			if want[id] = registered; !registered {
				delete(want, id)
			}
		}
		after := entry.Hash{byte(rapid.IntRange(0, 4).Draw(t, "after")), byte(rapid.IntRange(0, 9).Draw(t, "pool"))}
		var got []entry.Hash
		for p := range view.PoolsAfter(after) {
			if got = append(got, p.ID); !want[p.ID] {
				t.Fatalf("%s is not registered, or twice among %s", p.ID, got)
			}
			delete(want, p.ID)
		}
		for id := range want {
			if bytes.Compare(id[:], after[:]) > 0 {
				t.Fatalf("%s is registered, and after %s, but not among %s", id, after, got)
			}
		}
		if !slices.IsSortedFunc(got, func(x, y entry.Hash) int { return bytes.Compare(x[:], y[:]) }) ||
			len(got) > 0 && bytes.Compare(got[0][:], after[:]) <= 0 {
			t.Fatalf("after %s: %s", after, got)
		}
	})
}

// A page looks at about as many pools as it has, not at all of them. PoolsAfter allocates
// once for each of the 256 parts that it looks at.
func TestPageOfManyPools(t *testing.T) {
	const pools, page = 40_000, 1000
	view := newView()
	for i := range pools {
		register(view, poolID(i), true)
	}
	parts := testing.AllocsPerRun(3, func() {
		n := 0
		for range view.PoolsAfter(entry.Hash{0x40}) {
			if n++; n == page {
				break
			}
		}
	})
	if looked := parts * pools / 256; looked > page+4*pools/256 {
		t.Errorf("a page of %d pools looks at %.0f of %d", page, looked, pools)
	}
}
