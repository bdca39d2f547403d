package rules

import (
	"bytes"
	"iter"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

type Totals struct{ Pools, Capacity, InUse int }

func (t *Totals) add(of Totals, sign int) {
	t.Pools += sign * of.Pools
	t.Capacity += sign * of.Capacity
	t.InUse += sign * of.InUse
}

// totals holds what metrics and statistics read. It is updated pool by pool, so that a
// reader need not visit every pool.
type totals struct {
	Registered Totals       // of the registered pools
	InNames    Totals       // of the named pools in use
	registered [256]poolSet // the pools of Registered, by the first byte of their ids, which are hashes
	by         tally        // the pools of Registered, by the origins that registered them
}

func (t *totals) RegisteredBy(origin entry.Hash) int { return t.by[origin] }

// NamesInUse returns the named pools in use. The slice is valid until the next change of
// the view.
func (v *View) NamesInUse() []*Pool { return v.sets[isNamed] }

// PoolsAfter iterates over the registered pools whose ids are above after, in the order of
// their ids. Besides those, it visits about 1 in 128 pools at most.
func (t *totals) PoolsAfter(after entry.Hash) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for _, part := range t.registered[after[0]:] {
			sorted := slices.Clone(part)
			slices.SortFunc(sorted, func(x, y *Pool) int { return bytes.Compare(x.ID[:], y.ID[:]) })
			for _, p := range sorted {
				if bytes.Compare(p.ID[:], after[:]) > 0 && !yield(p) {
					return
				}
			}
		}
	}
}

// EachInUse iterates over the registered pools, and the named pools in use, in no particular
// order.
func (v *View) EachInUse(yield func(*Pool) bool) {
	for _, part := range v.registered {
		for _, p := range part {
			if !yield(p) {
				return
			}
		}
	}
	for _, p := range v.sets[isNamed] {
		if !yield(p) {
			return
		}
	}
}

type share struct {
	to     *Totals    // nil: the pool is in neither
	origin entry.Hash // of a registered pool
	Totals
}

func (v *View) deriveTotals(p *Pool) {
	var now share
	switch {
	case p.Terms().Named() && p.InUseOrWaited():
		now.to = &v.InNames
	case p.Exists() && !p.Terms().Named():
		now.to = &v.Registered
	}
	v.sets.put(isNamed, p, now.to == &v.InNames)
	v.registered[p.ID[0]].put(isRegistered, p, now.to == &v.Registered)
	if p.share.to != nil {
		p.share.to.add(p.share.Totals, -1)
	}
	if now.to == &v.Registered {
		now.origin = p.Config.Origin
	}
	v.by.add(p.share.origin, -1)
	v.by.add(now.origin, 1)
	if now.to != nil {
		now.Totals = Totals{Pools: 1, Capacity: p.Size(), InUse: p.InUse()}
		now.to.add(now.Totals, 1)
	}
	p.share = now
}

// Lines returns how many tickets stand in the lines of all pools, and when the oldest of
// them was written.
func (v *View) Lines() (waiting int, oldest Instant) {
	for _, p := range v.sets[hasLine] {
		for _, t := range p.Line {
			if waiting == 0 || t.Seen < oldest {
				oldest = t.Seen
			}
			waiting++
		}
	}
	return waiting, oldest
}
