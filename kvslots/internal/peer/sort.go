package peer

import (
	"cmp"
	"maps"
	"slices"
)

// What leaves the peer must not depend on the order of a map.

func sortByPlace(list []*borrow) {
	slices.SortFunc(list, func(x, y *borrow) int { return cmp.Compare(x.ticket.place, y.ticket.place) })
}

func sortedEnds(ends map[endKey]Instant) []endKey {
	return slices.SortedFunc(maps.Keys(ends), func(x, y endKey) int { return slices.Compare(x.lease[:], y.lease[:]) })
}
