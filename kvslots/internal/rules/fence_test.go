package rules_test

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim names the highest fence of its position, which a marker tells to a view that has not
// seen the lease. Where the fence of a claim is its revision, a claim names none, unless its
// revision would be below an earlier fence.
func TestFenceAfter(t *testing.T) {
	s, v, loaded := newStream(), newView(), newView()
	want := func(v *rules.View, byClock bool, want uint64) {
		t.Helper()
		if got := v.FenceAfter(v.Pool(poolID(1)).Slot(0), byClock); got != want {
			t.Errorf("a claim names %d, want %d", got, want)
		}
	}
	feed(s, v, config(poolID(1), 4, 1))
	want(v, true, 1)
	want(v, false, 0)
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), After: 1}))
	fence := uint64(s.time().UnixMicro())
	want(v, true, fence)
	want(v, false, fence) // above every revision
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(2), Fence: fence - 1}))
	want(v, true, fence)
	purge := marker(rules.SlotKey(poolID(1), 0))
	purge.Fenced = fence + 1
	feed(s, loaded, config(poolID(1), 4, 1))
	loaded.Apply(s.write(purge), 0, s.instant())
	want(loaded, true, fence+1)
}
