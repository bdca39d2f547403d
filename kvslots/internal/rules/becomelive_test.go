package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A claim that is applied in a catch-up takes its slot, and is not judged: its own peer does not
// grant it, and no peer excludes it. It is in doubt for a second. So is one above it that is
// applied when the view is live again only if that is not good by itself.
func TestClaimOfACatchUp(t *testing.T) {
	s, v := newStream(), newView()
	feed(s, v, config(poolID(1), 3, 1))
	v.Live = false
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(0)}))
	feed(s, v, claim(5, entry.SlotValue{Lease: leaseID(5)}))
	v.BecomeLive()
	feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(1)}))
	p, now := v.Pool(poolID(1)), s.instant()
	for position, good := range map[int]bool{0: false, 5: false, 1: true} {
		if x := p.Slot(position); x.Good() != good || x.Excluded() || x.InDoubt(now) == good || !x.Live() {
			t.Errorf("position %d: good %t, excluded %t, in doubt %t, live %t", position, x.Good(), x.Excluded(), x.InDoubt(now), x.Live())
		}
	}
	if !p.InDoubt(now.Add(time.Second-1)) || p.InDoubt(now.Add(time.Second)) {
		t.Error("the doubt does not last for a second")
	}
	if p.Slot(0).InDoubt(now.Add(time.Second)) {
		t.Error("the doubt about a claim lasts for more than a second")
	}
	renewed := claim(0, entry.SlotValue{Lease: leaseID(0), Fence: 1})
	feed(s, v, renewed)
	if !p.Slot(0).Good() {
		t.Error("a slot that was written again is not good")
	}
}
