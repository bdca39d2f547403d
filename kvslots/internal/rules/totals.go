package rules

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"

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
	Registered Totals             // of the registered pools
	InNames    Totals             // of the named pools in use
	listed     [256]poolSet       // the pools of both, by the first byte of their ids, which are hashes
	titled     map[string]poolSet // the pools of Registered that have a title, by title
	by         tally              // the pools of Registered, by the origins that registered them
}

func (t *totals) RegisteredBy(origin entry.Hash) int { return t.by[origin] }

// NamesInUse returns the named pools in use. The slice is valid until the next change of
// the view.
func (v *View) NamesInUse() []*Pool { return v.sets[isNamed] }

// PoolsAfter iterates over the registered pools whose ids are above after, in the order of
// their ids. Besides those, it visits about 1 in 128 pools at most.
func (t *totals) PoolsAfter(after entry.Hash) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		for _, part := range t.listed[after[0]:] {
			sorted := slices.DeleteFunc(slices.Clone(part), func(p *Pool) bool { return p.Terms().Named() })
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
	for i := range v.listed {
		if !v.eachOf(byte(i), yield) {
			return
		}
	}
}

func (t *totals) eachOf(first byte, yield func(*Pool) bool) bool {
	for _, p := range t.listed[first] {
		if !yield(p) {
			return false
		}
	}
	return true
}

// EachBeginning iterates over the pools of EachInUse whose ids begin with hexadecimal digits, at least two. It visits 1 in
// 256 pools.
func (t *totals) EachBeginning(digits string) iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		first, err := strconv.ParseUint(digits[:2], 16, 8)
		if err != nil {
			return
		}
		t.eachOf(byte(first), func(p *Pool) bool { return !strings.HasPrefix(p.ID.String(), digits) || yield(p) })
	}
}

// Titled returns the registered pools with a title, in no particular order. The slice is valid until the next change of
// the view.
func (t *totals) Titled(title string) []*Pool { return t.titled[title] }

func (t *totals) entitle(p *Pool, title string, member bool) {
	if title == "" {
		return
	}
	set := t.titled[title]
	if set.put(isTitled, p, member); len(set) > 0 {
		t.titled[title] = set
	} else {
		delete(t.titled, title)
	}
}

type share struct {
	to     *Totals    // nil: the pool is in neither
	origin entry.Hash // of a registered pool
	title  string     // of a registered pool
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
	v.listed[p.ID[0]].put(isListed, p, now.to != nil)
	if p.share.to != nil {
		p.share.to.add(p.share.Totals, -1)
	}
	if now.to == &v.Registered {
		now.origin, now.title = p.Config.Origin, p.Config.Title
	}
	if now.title != p.share.title {
		v.entitle(p, p.share.title, false)
		v.entitle(p, now.title, true)
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
