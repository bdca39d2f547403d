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

func sortedFollows(list []*follow) []*follow {
	slices.SortFunc(list, func(x, y *follow) int { return cmp.Compare(x.call.id, y.call.id) })
	return list
}

// all are the borrows of a pool, those of one phase in their order.
func (ps *poolState) all() []*borrow {
	list := slices.Concat(ps.queue, ps.refusing)
	kept := map[*borrow]struct{}{}
	for _, b := range list {
		kept[b] = struct{}{}
	}
	var more []*borrow
	add := func(b *borrow) {
		if _, there := kept[b]; !there {
			kept[b] = struct{}{}
			more = append(more, b)
		}
	}
	for _, b := range ps.tickets {
		add(b)
	}
	for _, b := range ps.promoting {
		add(b)
	}
	for _, b := range ps.claims {
		for ; b != nil; b = b.claim.next {
			add(b)
		}
	}
	slices.SortFunc(more, func(x, y *borrow) int {
		return cmp.Or(slices.Compare(x.lease[:], y.lease[:]), cmp.Compare(x.ticket.place, y.ticket.place))
	})
	return append(list, more...)
}

// awaiting are the awaits of a pool, in the order of their calls.
func (ps *poolState) awaiting() []*await {
	var list []*await
	for _, of := range ps.awaits {
		list = append(list, of...)
	}
	slices.SortFunc(list, func(x, y *await) int { return cmp.Compare(x.call.id, y.call.id) })
	return list
}

func sortedEnds(ends map[endKey]Instant) []endKey {
	return slices.SortedFunc(maps.Keys(ends), func(x, y endKey) int { return slices.Compare(x.lease[:], y.lease[:]) })
}
