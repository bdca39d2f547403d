package rules_test

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim names the highest fence of all slots, which a marker tells to a view that has not seen
// the lease.
func TestFenced(t *testing.T) {
	s, v, loaded := newStream(), newView(), newView()
	want := func(v *rules.View, want uint64) {
		t.Helper()
		if got := v.Fenced(); got != want {
			t.Errorf("a claim names %d, want %d", got, want)
		}
	}
	feed(s, v, config(poolID(1), 4, 1))
	want(v, 1)
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), After: 1}))
	fence := uint64(s.time().UnixMicro())
	want(v, fence)
	feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(2), Fence: fence - 1}))
	want(v, fence)
	purge := marker(rules.SlotKey(poolID(1), 0))
	purge.Fenced = fence + 1
	feed(s, loaded, config(poolID(1), 4, 1))
	loaded.Apply(s.write(purge), 0, s.instant())
	want(loaded, fence+1)
	loaded.Forget(s.instant().Add(rules.Guard))
	want(loaded, fence+1)
}
