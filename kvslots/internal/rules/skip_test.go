package rules_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// lagging is a view that is behind. With history 1 it skips what was overwritten before
// its turn.
type lagging struct {
	view    *rules.View
	at      int                      // how much of the log it has passed
	sent    uint64                   // its revision when its barrier was sent
	barrier uint64                   // the barrier's revision; 0: none is under way
	claims  map[uint64]*rules.Slot   // claims that are not judged yet
	verdict map[uint64]rules.Verdict // of claims, by revision
}

func newLagging() *lagging {
	return &lagging{view: rules.New(), claims: map[uint64]*rules.Slot{}, verdict: map[uint64]rules.Verdict{}}
}

// advance applies the next entry that is still in the bucket.
func (l *lagging) advance(s *stream) {
	for l.at < len(s.log) {
		e := &s.log[l.at]
		if l.at++; s.last[e.Key].Revision != e.Revision {
			continue
		}
		l.view.Apply(e, 0, s.instant())
		if e.Key.Kind == entry.Slot && !e.Marker && e.Corrupt == nil && e.Slot.Fence == 0 {
			l.claims[e.Revision] = l.view.Pool(e.Key.Pool).Slot(e.Key.N)
		}
		if l.barrier != 0 && l.view.Revision >= l.barrier {
			l.view.Reached(l.sent, s.instant())
			l.barrier = 0
		}
		break
	}
	for revision, slot := range l.claims {
		if slot.Revision != revision {
			delete(l.claims, revision)
		} else if v := slot.Verdict(); v != rules.Open {
			l.verdict[revision] = v
			delete(l.claims, revision)
		}
	}
}

// TestSkippingView checks that a view which skips entries never judges a claim good
// that a view which sees all judges void, nor the other way round. Where it cannot
// know, the verdict stays open, or is lost.
func TestSkippingView(t *testing.T) {
	judged := map[rules.Verdict]int{}
	check := func(t *rapid.T) {
		h := newHistory(t)
		l := newLagging()
		steps := append(h.writes(), step{"advance", 30, func() { l.advance(h.stream) }}, step{"send a barrier", 3, func() {
			if l.barrier == 0 {
				l.sent = l.view.Revision
				h.write(entry.Entry{Key: barrierKey(sessionID(0))})
				l.barrier = h.stream.sequence
			}
		}})
		for range rapid.IntRange(20, 100).Draw(t, "steps") {
			h.oneOf(steps)
		}
		for l.at < len(h.stream.log) {
			l.advance(h.stream)
		}
		for revision, v := range l.verdict {
			judged[v]++
			if want := h.naive.verdict[revision]; v != want && v != rules.Lost {
				t.Fatalf("the claim at %d is judged %d; a view that sees all judges it %d", revision, v, want)
			}
		}
	}
	all := func() bool { return judged[rules.Good] > 0 && judged[rules.Void] > 0 && judged[rules.Lost] > 0 }
	for round := 0; round == 0 || round < 50 && !all(); round++ {
		rapid.Check(t, check)
	}
	if !all() {
		t.Errorf("some verdict was never given: %v", judged)
	}
}

// TestLoadedView checks that a view which loads the bucket, from which markers have
// expired, excludes no live slot whose claim a view which sees all does not exclude.
func TestLoadedView(t *testing.T) {
	excluded := 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for n := range historyPools {
			h.write(config(poolID(n), historySlots, 1))
		}
		steps := []step{
			{"register", 1, h.register},
			{"session", 8, h.session},
			{"end session", 1, h.endSession},
			{"ticket", 10, h.ticket},
			{"end ticket", 6, h.endTicket},
			{"claim", 20, h.claim},
			{"purge", 4, h.purge},
			{"wait", 2, func() { h.stream.now += rules.Guard }},
		}
		for range rapid.IntRange(10, 50).Draw(t, "steps") {
			h.oneOf(steps)
		}
		view, now := rules.New(), h.stream.instant()
		for _, e := range h.stream.log {
			if h.stream.last[e.Key].Revision == e.Revision && h.stream.revision(e.Key) != 0 {
				view.Apply(&e, h.stream.time().Sub(e.Time), now)
			}
		}
		loaded := view.Revision
		view.Apply(h.stream.write(entry.Entry{Key: barrierKey(sessionID(0))}), 0, now)
		view.Reached(loaded, now)
		for n := range historyPools {
			view.Pool(poolID(n)).Slots(func(s *rules.Slot) bool {
				if !s.Live() || !s.Excluded() { // an orphaned value is purged in any case
					return true
				}
				excluded++
				if !h.naive.excluded[s.Revision] {
					t.Errorf("the claim at %d is excluded; a view that sees all judges it %d", s.Revision, h.naive.verdict[s.Revision])
				}
				return true
			})
		}
	})
	if excluded == 0 {
		t.Error("no claim was excluded")
	}
}
