package rules_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// follower is a view that follows the stream as a peer's does. It is live until its feed
// breaks. Then a reading skips what was overwritten before its turn, until it comes to the
// entries that the feed has held; and the view is live again at an entry that was written
// after that.
type follower struct {
	h       *history
	view    *rules.View
	naive   *naive // has seen all that the view has passed, the skipped entries included
	at      int    // how much of the log the view has passed
	held    int    // from where on the feed has held the log, during a reading
	reading bool
	barrier uint64       // what was written after the reading joined; 0: it has not joined
	judged  map[bool]int // claims that were applied by a live view: good, or not
	skipped int
}

// breaks interrupts the feed. From now on, or from a later entry on, it is held.
func (f *follower) breaks() {
	f.view.Live, f.reading, f.barrier = false, true, 0
	f.held = rapid.IntRange(f.at, len(f.h.stream.log)).Draw(f.h.t, "held from")
}

// next applies the next entry.
func (f *follower) next() {
	s := f.h.stream
	if f.at == len(s.log) {
		f.join()
		return
	}
	e, now := s.log[f.at], s.instant()
	f.at++
	f.naive.apply(e, 0, now)
	if f.reading && s.last[e.Key].Revision != e.Revision {
		f.skipped++
		return
	}
	f.view.Apply(&e, 0, now)
	if e.Key.Kind == entry.Slot && valid(e) && e.Slot.Fence == 0 {
		if s := f.view.Pool(e.Key.Pool).Slot(e.Key.N); f.view.Live {
			f.check(s)
		} else if s.Good() || s.Excluded() {
			f.h.t.Fatalf("the claim at %d is judged during a catch-up: good %t, excluded %t", s.Revision, s.Good(), s.Excluded())
		}
	}
	if f.reading {
		f.join()
	} else if f.barrier != 0 && e.Revision >= f.barrier {
		f.barrier = 0
		f.view.BecomeLive()
	}
	if f.view.Live {
		f.checkState()
	}
}

// join ends the reading if it has come to the entries that are held.
func (f *follower) join() {
	if f.reading && f.at >= f.held {
		f.reading = false
		f.h.write(entry.Entry{Key: barrierKey(sessionID(0))})
		f.barrier = f.h.stream.sequence
	}
}

// check checks the judgement of a claim that a live view has applied. It is that of a view that
// has seen everything.
func (f *follower) check(s *rules.Slot) {
	f.judged[s.Good()]++
	if good, excluded := !f.naive.void[s.Revision], f.naive.excluded[s.Revision]; s.Good() != good || s.Excluded() != excluded {
		f.h.t.Fatalf("the claim at %d: good %t, excluded %t; a view that has seen everything: %t, %t", s.Revision, s.Good(), s.Excluded(), good, excluded)
	}
}

// checkState checks that a view that is live knows what a view that has seen everything
// knows, except for verdicts.
func (f *follower) checkState() {
	t := f.h.t
	for i := range historyPools {
		id := poolID(i)
		p, c := f.view.Pool(id), f.naive.config(id)
		if p == nil && c.Generation == 0 {
			continue
		}
		if p.Generation() != c.Generation || p.Size() != c.Count || p.Closing() != c.Closing {
			t.Fatalf("pool %d has generation %d, count %d; want %+v", i, p.Generation(), p.Size(), c)
		}
		var live, standing, able []uint64
		for s := range p.Slots {
			if s.Live() {
				live = append(live, s.Revision)
			}
		}
		for k := range p.Tickets {
			if k.Stands() {
				standing = append(standing, k.Place)
			}
		}
		for _, k := range p.Able() {
			able = append(able, k.Place)
		}
		if want := revisions(f.naive.live(id)); !slices.Equal(live, want) {
			t.Fatalf("pool %d: live slots %v, want %v", i, live, want)
		}
		if want := places(f.naive.standing(id)); !slices.Equal(standing, want) {
			t.Fatalf("pool %d: tickets %v stand, want %v", i, standing, want)
		}
		if want := places(f.naive.able(id)); !slices.Equal(able, want) {
			t.Fatalf("pool %d: tickets %v are able, want %v", i, able, want)
		}
	}
}

func revisions(entries []entry.Entry) (list []uint64) {
	for _, e := range entries {
		list = append(list, e.Revision)
	}
	return list
}

func places(entries []entry.Entry) (list []uint64) {
	for _, e := range entries {
		list = append(list, place(e))
	}
	return list
}

// A view that has caught up is as one that was live all the time, but for the claims that
// it did not judge.
func TestViewThatCatchesUp(t *testing.T) {
	judged, skipped := map[bool]int{}, 0
	check := func(t *rapid.T) {
		h := newHistory(t)
		h.strict = true
		f := &follower{h: h, view: newView(), naive: newNaive(), judged: judged}
		steps := append(h.writes(),
			step{"next", 30, f.next},
			step{"the feed breaks", 2, f.breaks},
		)
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			h.oneOf(steps)
		}
		for f.at < len(h.stream.log) || f.reading {
			f.next()
		}
		if !f.view.Live {
			t.Fatal("the view is not live again")
		}
		skipped += f.skipped
	}
	all := func() bool {
		return judged[true] > 0 && judged[false] > 0 && skipped > 0
	}
	for round := 0; round == 0 || round < 50 && !all(); round++ {
		rapid.Check(t, check)
	}
	if !all() {
		t.Errorf("some verdict was never given, or nothing was skipped: %v, %d", judged, skipped)
	}
	t.Logf("verdicts %v, %d entries skipped", judged, skipped)
}
