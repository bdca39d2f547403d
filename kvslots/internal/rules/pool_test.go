package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A view applies every entry of the bucket, so the entries of a lease must not allocate.
func TestApplyAllocatesNothing(t *testing.T) {
	s, v, p := lent(t, 2)
	revision := v.Revision
	write := func(e entry.Entry) {
		revision++
		e.Revision, e.Previous, e.Time, e.TTL = revision, p.Slot(1).Revision, s.time(), time.Hour
		v.Apply(&e, 0, s.instant())
		v.Touched()
	}
	taken, free := claim(1, entry.SlotValue{Lease: leaseID(1)}), marker(rules.SlotKey(p.ID, 1))
	renewed := taken
	renewed.Slot.Fence = 1
	cycle := func() { write(free); write(taken); write(renewed) }
	for range 100 { // let the slices grow
		cycle()
	}
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Errorf("%v allocations for a purge, a claim and a renewal", n)
	}
	if p.InUse() != 2 || !p.Slot(1).Good() {
		t.Errorf("in use %d, good %t", p.InUse(), p.Slot(1).Good())
	}
}

// Two peers claim for one enqueued ticket, and the second withdraws its claim: Lease
// still finds the first claim, in a large pool as in a small one.
func TestLeaseClaimedTwice(t *testing.T) {
	for _, second := range []int{1, 20} {
		s, v, p := lent(t, 1)
		feed(s, v, claim(second, entry.SlotValue{Lease: leaseID(0)}))
		feed(s, v, marker(rules.SlotKey(p.ID, second)))
		if p.Lease(leaseID(0), 0) != p.Slot(0) || p.Lease(leaseID(9), 0) != nil {
			t.Errorf("the lease is not found when slot %d is purged", second)
		}
	}
}
