package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Had is asked about what was so when a lease was given back. What was skipped may have
// ended the generation, or only changed the count: from there on it is not known. (A
// return that was written between a closing that was skipped and the opening under other
// terms was answered "not returned".)
func TestHad(t *testing.T) {
	for name, seen := range map[string]bool{"deletion seen": true, "deletion skipped": false} {
		t.Run(name, func(t *testing.T) {
			s, w := newStream(), rules.New()
			feed(s, w, config(poolID(1), 1, 1))
			feed(s, w, alive(sessionID(1)))
			feed(s, w, alive(sessionID(1)))
			e := config(poolID(1), 0, 1)
			e.Config.Deleted = true
			if deleted := s.write(e); seen {
				w.Apply(deleted, 0, s.instant())
			}
			feed(s, w, alive(sessionID(1)))
			feed(s, w, config(poolID(1), 1, 2))
			p := w.Pool(poolID(1))
			type answer struct{ had, known bool }
			for revision, want := range map[uint64]answer{2: {true, true}, 3: {true, true}, 4: {false, seen}, 5: {false, seen}, 6: {false, true}} {
				had, known := p.Had(1, revision)
				if got := (answer{had, known}); got != want {
					t.Errorf("at %d: %v, not %v", revision, got, want)
				}
			}
			if had, known := p.Had(2, 6); !had || !known {
				t.Error("it does not have its generation")
			}
			for _, never := range []uint64{0, 3} {
				if had, known := p.Had(never, 1); had || !known {
					t.Errorf("it had generation %d, which never was", never)
				}
			}
		})
	}
}

func TestDoubtBelow(t *testing.T) {
	s, w, p := lent(t, 0)
	feed(s, w, claim(2, entry.SlotValue{Lease: leaseID(1)}))
	now := s.instant()
	for position, want := range []bool{false, false, false, true} {
		if p.DoubtBelow(position, now) != want {
			t.Errorf("below %d: want %v", position, want)
		}
	}
	if !p.InDoubt(now.Add(time.Second-1)) || p.InDoubt(now.Add(time.Second)) {
		t.Error("it is in doubt for a second")
	}
}

func TestPurgesBelow(t *testing.T) {
	f := rules.InFlight{Purges: map[int]uint64{2: 7}}
	for position, want := range []bool{false, false, false, true} {
		if f.PurgesBelow(position) != want {
			t.Errorf("below %d: want %v", position, want)
		}
	}
}

// A view applies every entry of the bucket: those of a lease cost no memory.
func TestApplyAllocatesNothing(t *testing.T) {
	s, w, p := lent(t, 2)
	revision := w.Revision
	write := func(e entry.Entry) {
		revision++
		e.Revision, e.Previous, e.Time, e.TTL = revision, p.Slot(1).Revision, s.time(), time.Hour
		w.Apply(&e, 0, s.instant())
		w.Touched()
	}
	taken, free := claim(1, entry.SlotValue{Lease: leaseID(1)}), marker(rules.SlotKey(p.ID, 1))
	renewed := taken
	renewed.Slot.Fence = 1
	cycle := func() { write(free); write(taken); write(renewed) }
	for range 100 { // the slices have grown
		cycle()
	}
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Errorf("%v allocations for a purge, a claim and a renewal", n)
	}
	if p.InUse() != 2 || p.Slot(1).Verdict() != rules.Good {
		t.Errorf("in use %d, verdict %d", p.InUse(), p.Slot(1).Verdict())
	}
}

// Two peers claim for one enqueued ticket, and the second claim is withdrawn: the
// first one's lease is still found, in a large pool as in a small one.
func TestLeaseClaimedTwice(t *testing.T) {
	for _, second := range []int{1, 20} {
		s, w, p := lent(t, 1)
		feed(s, w, claim(second, entry.SlotValue{Lease: leaseID(0)}))
		feed(s, w, marker(rules.SlotKey(p.ID, second)))
		if p.Lease(leaseID(0)) != p.Slot(0) || p.Lease(leaseID(9)) != nil {
			t.Errorf("the lease is not found when slot %d is purged", second)
		}
	}
}
