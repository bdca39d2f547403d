package stream_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// feedCheck is what a run of writers under the feed has shown.
type feedCheck struct {
	t     testing.TB
	real  *realStream
	wires []*wire

	first    uint64 // the stream's first sequence
	last     uint64 // the last one of the feed
	final    []stream.Stored
	keepsAll bool // the stream has no limit per key, so that final has whatever did not expire
	all      map[uint64]feedEntry
}

// feedCounts are the numbers that are no faults of the server.
type feedCounts struct {
	entries, writes          int
	gaps, missing            int // in the feeds of all wires, while their connections lasted
	away                     int // missing because a connection was made anew
	never                    int // came by no wire
	neverMarkers             int // of these, the known markers of the server
	repeated, late           int
	refused, refusedStored   int
	refusedFirst             int // of refusedStored, before the entry
	refusedReached           int // of refusedStored, named a revision that the view had reached
	unansweredStored         int
	severalAnswers, unavail  int
	unavailStored, reconnect int
	longestAnswer            time.Duration
}

func (c *feedCounts) add(o feedCounts) {
	for to, from := range map[*int]int{
		&c.entries: o.entries, &c.writes: o.writes, &c.gaps: o.gaps, &c.missing: o.missing, &c.away: o.away, &c.never: o.never,
		&c.neverMarkers: o.neverMarkers, &c.repeated: o.repeated, &c.late: o.late, &c.refused: o.refused,
		&c.refusedStored: o.refusedStored, &c.refusedFirst: o.refusedFirst, &c.refusedReached: o.refusedReached,
		&c.unansweredStored: o.unansweredStored, &c.severalAnswers: o.severalAnswers, &c.unavail: o.unavail,
		&c.unavailStored: o.unavailStored, &c.reconnect: o.reconnect,
	} {
		*to += from
	}
	c.longestAnswer = max(c.longestAnswer, o.longestAnswer)
}

func (c feedCounts) String() string {
	return fmt.Sprintf("%d entries of %d writes; missing while connected %d (%d gaps), while away %d (%d reconnects); "+
		"never republished %d (%d markers); repeated %d, late %d; refused %d, of these stored %d (refused first %d, reached %d); "+
		"stored without an answer %d, several answers %d; 503 %d, of these stored %d; slowest ack %v",
		c.entries, c.writes, c.missing, c.gaps, c.away, c.reconnect, c.never, c.neverMarkers, c.repeated, c.late,
		c.refused, c.refusedStored, c.refusedFirst, c.refusedReached, c.unansweredStored, c.severalAnswers, c.unavail, c.unavailStored,
		c.longestAnswer.Round(time.Millisecond))
}

// startWriters has all wires write. The caller calls stop once.
func startWriters(wires []*wire, keys int, every time.Duration) (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for _, w := range wires {
		all.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-tick.C:
				}
				if n%100 == 0 {
					w.abandonOld()
				}
				w.write(keys)
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// settleFeed waits until what has a TTL of one second has expired, and until all wires have
// heard of the end of the stream. It writes further entries for that: the last one may have
// been lost.
func (c *feedCheck) settleFeed() {
	c.t.Helper()
	natstest.Eventually(c.t, "an end of all that expires", func() bool {
		for _, m := range c.real.all() {
			if m.Header.TTL == "1s" {
				return false
			}
		}
		return true
	})
	natstest.Eventually(c.t, "the last entry on all wires", func() bool {
		last := c.real.publish(put("end", "")).Sequence
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if !slices.ContainsFunc(c.wires, func(w *wire) bool { return w.lastSequence() < last }) {
				return true
			}
		}
		return false
	})
}

// check compares all feeds with each other and with the stream, and counts.
func (c *feedCheck) check() feedCounts {
	c.t.Helper()
	for _, w := range c.wires {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	c.merge()
	c.readFinal()
	c.checkChains()
	c.checkFinal()
	return c.count()
}

// merge collects the entries of all wires, which must agree.
func (c *feedCheck) merge() {
	c.all = map[uint64]feedEntry{}
	for _, w := range c.wires {
		for sequence, e := range w.seen {
			if before, ok := c.all[sequence]; ok && !e.same(before) {
				c.t.Errorf("two entries with one sequence:\n%s %v %d\n%s %v %d",
					describe(before.Stored), before.Time, before.last, describe(e.Stored), e.Time, e.last)
			}
			c.all[sequence] = e
		}
	}
}

// readFinal reads the stream until it has the last entry of the feed: a replica may lag.
func (c *feedCheck) readFinal() {
	c.t.Helper()
	for sequence := range c.all {
		c.last = max(c.last, sequence)
	}
	natstest.Eventually(c.t, "a reading with the last entry of the feed", func() bool {
		c.final = c.real.all()
		return len(c.final) > 0 && c.final[len(c.final)-1].Sequence >= c.last
	})
}

// checkChains checks that each entry follows the entry that it expected, and that no two
// entries follow the same one.
func (c *feedCheck) checkChains() {
	followed := map[uint64]uint64{}
	authors := map[string]uint64{}
	for sequence, e := range c.all {
		if want := e.Header.Expected; want != nil && *want != e.last {
			c.t.Errorf("%s follows %d", describe(e.Stored), e.last)
		}
		if other, ok := followed[e.last]; ok && e.last > 0 {
			c.t.Errorf("%d and %d follow %d", other, sequence, e.last)
		}
		followed[e.last] = sequence
		if before, ok := c.all[e.last]; e.last >= sequence || ok && before.Key != e.Key {
			c.t.Errorf("%s follows %s", describe(e.Stored), describe(before.Stored))
		}
		if author := e.author(); author != "" {
			if other, ok := authors[author]; ok {
				c.t.Errorf("write %s is stored at %d and at %d", author, other, sequence)
			}
			authors[author] = sequence
		}
	}
}

// checkFinal checks that the stream contains what the feed has shown: no entry of the feed is
// a phantom.
func (c *feedCheck) checkFinal() {
	final, heads, rolledUp := map[uint64]stream.Stored{}, map[string]uint64{}, map[string]uint64{}
	for _, m := range c.final {
		final[m.Sequence] = m
		heads[m.Key] = max(heads[m.Key], m.Sequence)
	}
	for sequence, e := range c.all {
		if e.Header.Rollup != "" { // the server's marker removes what was before it
			rolledUp[e.Key] = max(rolledUp[e.Key], sequence)
		}
	}
	for sequence, e := range c.all {
		m, ok := final[sequence]
		switch {
		case ok && describe(m) != describe(e.Stored):
			c.t.Errorf("the stream has %s, the feed had %s", describe(m), describe(e.Stored))
		case !ok && e.Header.TTL == "" && (c.keepsAll && rolledUp[e.Key] < sequence || heads[e.Key] <= sequence):
			c.t.Errorf("the stream does not have %s", describe(e.Stored))
		}
	}
}

func (c *feedCheck) count() (n feedCounts) {
	stored := map[string]uint64{} // by author
	known := map[uint64]stream.Stored{}
	for _, m := range c.final {
		known[m.Sequence] = m
	}
	for sequence, e := range c.all {
		known[sequence] = e.Stored
	}
	for sequence, m := range known {
		if author := m.Header.Get(headerAuthor); author != "" {
			stored[author] = sequence
		}
		if _, fed := c.all[sequence]; !fed && sequence <= c.last && m.Header.Reason != "" {
			n.neverMarkers++
		}
	}
	n.entries = int(c.last + 1 - c.first)
	n.never = n.entries - len(c.all)
	for _, w := range c.wires {
		n.countFeed(c, w)
		for author, s := range w.writes {
			n.countWrite(s, stored[author])
		}
	}
	return n
}

func (n *feedCounts) countFeed(c *feedCheck, w *wire) {
	n.repeated += w.repeated
	n.late += w.late
	n.reconnect += int(w.epoch())
	next, epoch := c.first, uint64(0)
	for _, e := range w.entries {
		if lost := int(e.Sequence - next); lost > 0 && e.epoch == epoch {
			n.gaps++
			n.missing += lost
		} else {
			n.away += lost
		}
		next, epoch = e.Sequence+1, e.epoch
	}
}

func (n *feedCounts) countWrite(s *sent, stored uint64) {
	n.writes++
	if len(s.answers) == 0 && stored > 0 {
		n.unansweredStored++
	}
	if len(s.answers) > 1 {
		n.severalAnswers++
	}
	for i, a := range s.answers {
		switch {
		case a.noResponders:
			n.unavail++
			if stored > 0 {
				n.unavailStored++
			}
		case a.refused():
			n.refused++
			if stored == 0 {
				continue
			}
			n.refusedStored++
			if i == 0 && !a.fedBefore {
				n.refusedFirst++
			}
			if a.reached {
				n.refusedReached++
			}
		default:
			n.longestAnswer = max(n.longestAnswer, a.after)
		}
	}
}
