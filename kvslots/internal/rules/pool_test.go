package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Had is asked about what was so when a lease was given back.
func TestHad(t *testing.T) {
	for name, c := range map[string]struct {
		deletionSeen bool
		want         map[uint64][2]bool // by revision: incarnation 1, incarnation 2
	}{
		"deletion seen":    {true, map[uint64][2]bool{2: {true, true}, 3: {true, true}, 4: {false, true}, 6: {false, true}}},
		"deletion skipped": {false, map[uint64][2]bool{2: {true, true}, 3: {true, true}, 4: {false, true}, 6: {false, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newStream(), rules.New()
			feed(s, w, config(simPool, 1, 1))
			feed(s, w, alive(sessionID(1), time.Second))
			feed(s, w, alive(sessionID(1), time.Second))
			s.write(deleted(simPool, 1), 1)
			if c.deletionSeen {
				w.Apply(s.log[3], s.instant(), 0)
			}
			s.write(alive(sessionID(1), time.Second), 3)
			w.Apply(s.log[4], s.instant(), 0)
			feed(s, w, config(simPool, 1, 2))
			p := w.Pool(simPool)
			for revision, want := range c.want {
				if p.Had(1, revision) != want[0] || p.Had(2, revision) != want[1] {
					t.Errorf("at %d: got %v, %v; want %v", revision, p.Had(1, revision), p.Had(2, revision), want)
				}
			}
			if p.Had(3, 1) {
				t.Error("it had an incarnation that never was")
			}
		})
	}
}

func TestDoubtBelow(t *testing.T) {
	s, w := newStream(), rules.New()
	feed(s, w, config(simPool, 4, 1))
	feed(s, w, claim(slotKey(simPool, 2), entry.SlotValue{Lease: leaseID(1), Incarnation: 1}))
	p, now := w.Pool(simPool), s.instant()
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

// The server knows better than the view which keys are absent, and only those.
func TestAbsent(t *testing.T) {
	s, w, slot := lent(t)
	if w.Absent(slot, 0); slot.Revision != 2 {
		t.Error("a slot that is lent was taken for absent")
	}
	feed(s, w, marker(slotKey(simPool, 0)))
	if w.Absent(slot, 4); slot.Revision != 3 {
		t.Error("a revision was believed that the view has not reached")
	}
	if w.Absent(slot, 0); slot.Revision != 0 {
		t.Error("the marker was not forgotten")
	}
	p := w.Pool(simPool)
	if w.AbsentConfig(p); p.ConfigRevision != 1 {
		t.Error("a pool that is registered was taken for absent")
	}
	feed(s, w, corrupt(configKey(simPool)))
	if w.AbsentConfig(p); p.ConfigRevision != 4 {
		t.Error("a configuration that cannot be read was taken for absent")
	}
	feed(s, w, marker(configKey(simPool)))
	if w.AbsentConfig(p); p.ConfigRevision != 0 {
		t.Error("the configuration's marker was not forgotten")
	}
}
