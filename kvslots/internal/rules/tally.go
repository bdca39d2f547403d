package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// tally is a number for each origin or session that has one. The zero hash has none.
type tally map[entry.Hash]int

func (t tally) add(of entry.Hash, n int) {
	if of.IsZero() || n == 0 {
		return
	}
	if t[of] += n; t[of] == 0 {
		delete(t, of)
	}
}
