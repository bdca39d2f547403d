package rules

import (
	"slices"
	"sort"
)

// maxSpans is how many gaps Gaps keeps apart. When there are more, the last one
// includes the sequences between them.
const maxSpans = 1024

// Gaps holds the sequences of the stream that the view skipped and that are not
// accounted for yet.
//
// A bucket with history 1 never delivers an entry that was overwritten before
// its turn. A skipped entry is accounted for when the entry that overwrote it
// arrives and names it. If that entry was skipped as well, no entry ever names the
// first one. Barriers solve this: when a peer sends a barrier, the entries that
// overwrote those skipped so far are already in the stream, below the barrier. So once
// the view has reached the barrier, the earlier gaps are closed: each of their entries
// was overwritten by an entry that was delivered, or by one in a later gap.
//
// A claim can only be judged when no gap is left at all, above its sequence or
// below: a key can be overwritten again and again ahead of a slow view, and each
// overwriting entry is above the one before. TestSkippingView draws such histories.
//
// The zero Gaps is ready for use.
type Gaps struct {
	spans []span // disjoint, ascending

	// unnamed are the sequences that a barrier accounted for, but no entry named, since
	// the view was last exact.
	unnamed []span
}

type span struct{ low, high uint64 } // both included

// Exact reports whether all skipped entries are accounted for: then the view has the
// state of every key at the last applied sequence.
func (g *Gaps) Exact() bool { return len(g.spans) == 0 }

// Unnamed reports whether an entry from low to high was skipped since the view was
// last exact, and no later entry named it, so that its key is not known.
func (g *Gaps) Unnamed(low, high uint64) bool {
	return slices.ContainsFunc(g.unnamed, func(s span) bool { return s.low <= high && low <= s.high })
}

// Skip records that the view skipped low … high.
func (g *Gaps) Skip(low, high uint64) {
	if g.Exact() {
		g.unnamed = nil
	}
	if n := len(g.spans); n >= maxSpans {
		g.spans[n-1].high = high
	} else {
		g.spans = append(g.spans, span{low, high})
	}
}

// Explain records that an entry arrived that overwrote the given sequence. It closes the
// gap at that sequence.
func (g *Gaps) Explain(sequence uint64) {
	i := g.search(sequence)
	if i == len(g.spans) || g.spans[i].low > sequence { // or 0, if it overwrote none
		return
	}
	left := []span{{g.spans[i].low, sequence - 1}, {sequence + 1, g.spans[i].high}}
	left = slices.DeleteFunc(left, func(s span) bool { return s.low > s.high })
	g.spans = slices.Replace(g.spans, i, i+1, left...)
}

// Reached records that the view has reached a barrier. sent is the revision that the
// view had when the barrier was sent.
func (g *Gaps) Reached(sent uint64) {
	i := g.search(sent + 1)
	g.unnamed = append(g.unnamed, g.spans[:i]...)
	g.spans = slices.Delete(g.spans, 0, i)
}

// search returns the index of the first span that ends at or after the sequence.
func (g *Gaps) search(sequence uint64) int {
	return sort.Search(len(g.spans), func(i int) bool { return g.spans[i].high >= sequence })
}
