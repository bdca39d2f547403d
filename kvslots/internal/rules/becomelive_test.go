package rules_test

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim that is applied in a catch-up is judged at its end, unless an entry of its pool was
// skipped: that of a key, or that of a session which held a slot.
func TestBecomeLive(t *testing.T) {
	holder := client(sessionID(1))
	for name, c := range map[string]struct {
		load      bool
		meanwhile func(s *stream, v *rules.View)
		verdict   rules.Verdict
		excluded  bool
	}{
		"nothing skipped": {false, func(*stream, *rules.View) {}, rules.Good, true},
		"other pool": {false, func(s *stream, v *rules.View) {
			s.write(config(poolID(2), 1, 1))
			feed(s, v, config(poolID(2), 2, 1))
		}, rules.Good, true},
		"slot": {false, func(s *stream, v *rules.View) {
			s.write(claim(1, entry.SlotValue{Lease: leaseID(9)}))
			feed(s, v, marker(rules.SlotKey(poolID(1), 1)))
		}, rules.Unknown, false},
		"session": {false, func(s *stream, v *rules.View) {
			s.write(holder)
			feed(s, v, claim(1, entry.SlotValue{Lease: leaseID(9), Session: holder.Key.Session}))
			feed(s, v, holder)
		}, rules.Unknown, false},
		"load": {true, func(*stream, *rules.View) {}, rules.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := newStream(), newView()
			if c.load {
				v = rules.New()
			}
			feed(s, v, config(poolID(1), 3, 1))
			if v.Live = false; !c.load {
				v.BecomeLive(s.instant())
				v.Live = false
			}
			feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(0)}))
			feed(s, v, claim(5, entry.SlotValue{Lease: leaseID(5)}))
			c.meanwhile(s, v)
			p := v.Pool(poolID(1))
			if got := p.Slot(0).Verdict(); got != rules.Unknown || p.Slot(5).Excluded() {
				t.Errorf("during the catch-up, the verdict is %v", got)
			}
			v.BecomeLive(s.instant())
			if got := p.Slot(0).Verdict(); got != c.verdict {
				t.Errorf("the verdict is %v, want %v", got, c.verdict)
			}
			if got := p.Slot(5).Excluded(); got != c.excluded {
				t.Errorf("the claim above the count is excluded: %t, want %t", got, c.excluded)
			}
		})
	}
}
