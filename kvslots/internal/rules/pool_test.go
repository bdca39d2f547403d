package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A return asks Had whether its pool existed when it was written. A view that skipped
// the end of a generation learns of it from the next configuration. (It did not: after
// a skipped closing and before the opening under other terms, a return was answered
// "not returned"; after a skipped deletion, "returned".)
func TestHad(t *testing.T) {
	for name, seen := range map[string]bool{"deletion seen": true, "deletion skipped": false} {
		t.Run(name, func(t *testing.T) {
			s, peer, v := newStream(), rules.New(), rules.New()
			feed := func(e entry.Entry, seen bool) {
				written := s.write(e)
				if peer.Apply(written, 0, s.instant()); seen {
					v.Apply(written, 0, s.instant())
				}
			}
			next := func(count int, generation uint64) entry.Entry {
				e := config(poolID(1), count, generation)
				e.Config.Before = peer.Pool(poolID(1)).Before(generation)
				return e
			}
			feed(next(1, 1), true)
			feed(alive(sessionID(1)), true)
			feed(next(2, 1), seen)
			deletion := next(0, 1)
			deletion.Config.Deleted = true
			feed(deletion, seen)
			feed(alive(sessionID(1)), true)
			feed(next(1, 2), seen)
			feed(next(2, 3), seen)
			feed(next(3, 3), true)
			p := v.Pool(poolID(1))
			for _, c := range []struct {
				generation, revision uint64
				had                  bool
			}{{1, 1, true}, {1, 3, true}, {1, 4, false}, {1, 7, false}, {2, 6, true}, {2, 7, false}, {3, 8, true}} {
				if had, known := p.Had(c.generation, c.revision); had != c.had || !known {
					t.Errorf("generation %d at %d: %v, known %v", c.generation, c.revision, had, known)
				}
			}
			for _, never := range []uint64{0, 4} {
				if had, known := p.Had(never, 1); had || known {
					t.Errorf("it had generation %d, which never was", never)
				}
			}
		})
	}
}

func TestDoubtBelow(t *testing.T) {
	s, v, p := lent(t, 0)
	feed(s, v, claim(2, entry.SlotValue{Lease: leaseID(1)}))
	now := s.instant()
	for position, want := range []bool{false, false, false, true} {
		if p.DoubtBelow(position, now) != want {
			t.Errorf("below %d: want %v", position, want)
		}
	}
	if !p.InDoubt(now.Add(time.Second-1)) || p.InDoubt(now.Add(time.Second)) {
		t.Error("the claim is still in doubt after a second")
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
	if p.InUse() != 2 || p.Slot(1).Verdict() != rules.Good {
		t.Errorf("in use %d, verdict %d", p.InUse(), p.Slot(1).Verdict())
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
