package rules

import (
	"slices"
	"sort"
)

// maxSpans bounds what Gaps keeps; beyond it, single gaps are forgotten and
// everything up to the highest counts as one.
const maxSpans = 1024

// Gaps knows which sequences of the stream the view skipped and cannot yet
// account for.
//
// A bucket with history 1 never delivers an entry that was overwritten before
// its turn. A skipped entry is accounted for when an entry that overwrote it
// arrives and names it. An entry that overwrote it may have been skipped as
// well, and then no entry ever names it; that is what barriers are for. When a
// barrier is sent, whatever overwrote the entries skipped so far is already in
// the stream, below the barrier. So once the view has reached the barrier, they
// need not be accounted for any more: each chain of overwriting entries goes on
// with one that was delivered, or with one that was skipped later, and that one
// has to be accounted for in its turn.
//
// So it is not enough that nothing is open at or below the sequence that is
// judged: a key can be overwritten again and again ahead of a slow view, and
// each time the next link of the chain lies above it. TestSkippingView draws such
// histories.
//
// The zero Gaps is ready for use.
type Gaps struct {
	spans []span // disjoint, ascending
	floor uint64 // all up to here may have been skipped
	// What only a barrier accounted for, since the view was last exact before.
	unnamed []span
}

type span struct{ low, high uint64 } // both included

// Exact reports whether everything that was skipped is accounted for: each key
// is at least as new in the view as the stream's last applied sequence.
func (g *Gaps) Exact() bool { return g.floor == 0 && len(g.spans) == 0 }

// Unnamed reports whether anything between low and high, both included, was
// skipped and never named, since the view was last exact: what it was, only the
// barrier knows.
func (g *Gaps) Unnamed(low, high uint64) bool {
	return slices.ContainsFunc(g.unnamed, func(s span) bool { return s.low <= high && low <= s.high })
}

// Skip notes that the view jumped over low … high.
func (g *Gaps) Skip(low, high uint64) {
	if g.Exact() {
		g.unnamed = nil
	}
	if len(g.spans) >= maxSpans {
		g.floor, g.spans = high, g.spans[:0]
		return
	}
	g.spans = append(g.spans, span{low, high})
}

// Explain notes that an entry arrived that had overwritten the given sequence.
func (g *Gaps) Explain(sequence uint64) {
	if len(g.spans) == 0 || sequence == 0 {
		return
	}
	i := g.search(sequence)
	if i == len(g.spans) || g.spans[i].low > sequence {
		return
	}
	switch s := g.spans[i]; {
	case s.low == s.high:
		g.spans = slices.Delete(g.spans, i, i+1)
	case s.low == sequence:
		g.spans[i].low++
	case s.high == sequence:
		g.spans[i].high--
	default:
		g.spans[i].high = sequence - 1
		g.spans = slices.Insert(g.spans, i+1, span{sequence + 1, s.high})
	}
}

// Reached notes that a barrier was reached that had been sent while the view
// stood at sent.
func (g *Gaps) Reached(sent uint64) {
	if g.floor > sent {
		return
	}
	i := g.search(sent + 1)
	g.unnamed = append(g.unnamed, g.spans[:i]...)
	if g.floor > 0 {
		g.unnamed = append(g.unnamed, span{0, g.floor})
	}
	g.spans = slices.Delete(g.spans, 0, i)
	g.floor = 0
}

// search finds the first span that ends at or after the sequence.
func (g *Gaps) search(sequence uint64) int {
	return sort.Search(len(g.spans), func(i int) bool { return g.spans[i].high >= sequence })
}
