package rules_test

import "github.com/kvslots/kvslots/kvslots/internal/rules"

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
		case live+standing > 0:
			named = sum(named, one)
		}
	}
	if h.view.Registered != registered || h.view.InNames != named {
		h.t.Fatalf("registered %+v, named %+v; want %+v, %+v", h.view.Registered, h.view.InNames, registered, named)
	}
	if got, _ := h.view.Lines(); got != waiting {
		h.t.Fatalf("%d tickets stand in lines; want %d", got, waiting)
	}
}

func sum(x, y rules.Totals) rules.Totals {
	return rules.Totals{Pools: x.Pools + y.Pools, Capacity: x.Capacity + y.Capacity, InUse: x.InUse + y.InUse}
}
