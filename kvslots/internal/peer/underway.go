package peer

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// maxSpare bounds what is kept of the memory of pools for which nothing is pending any more. Without
// it, that would be 7 of a borrow's allocations.
const maxSpare = 64

// underWay is what this peer is writing to one pool, as far as it matters for the next claim.
type underWay struct {
	rules.InFlight
	freeing []*write // the purges of slots that were sent
}

var nothing rules.InFlight

func (p *post) inFlight(pool entry.Hash) *rules.InFlight {
	if u := p.underWay[pool]; u != nil {
		return &u.InFlight
	}
	return &nothing
}

// counts has a write count for its pool until it is settled.
func (w *write) counts() *underWay {
	p, pool := w.p, w.key().Pool
	u := p.underWay[pool]
	if u == nil {
		if last := len(p.spare) - 1; last >= 0 {
			u, p.spare = p.spare[last], p.spare[:last]
		} else {
			u = &underWay{}
		}
		put(&p.underWay, pool, u)
	}
	w.under = u
	return u
}

// claims counts a write as a claim, for the ticket of a place or for none. When it has to be sent
// again, other borrows may claim the position.
func (w *write) claims(place uint64) {
	w.claim = true
	put(&w.counts().Claims, w.key().N, rules.Claim{Place: place, Author: w.author()})
}

func (w *write) joins() { w.counts().Joining++ }

func (w *write) frees() {
	u := w.counts()
	u.freeing = append(u.freeing, w)
}

func (w *write) countsNoMore() {
	u, p := w.under, w.p
	if u == nil {
		return
	}
	switch w.under = nil; {
	case w.key().Kind == entry.Ticket:
		u.Joining--
	case w.msg.Marker:
		u.freeing = slices.DeleteFunc(u.freeing, func(o *write) bool { return o == w })
	case u.Claims[w.key().N].Author == w.author(): // otherwise that of another claim of the position
		delete(u.Claims, w.key().N)
	}
	if u.Joining+len(u.freeing)+len(u.Claims) == 0 {
		delete(p.underWay, w.key().Pool)
		if len(p.spare) < maxSpare {
			p.spare = append(p.spare, u)
		}
	}
}

// isFreeing reports whether a purge of a slot below a position has been sent, and is not settled. A
// claim of that position or a higher one would be void: it would reach the stream after the purge.
func (p *post) isFreeing(pool entry.Hash, below int) bool {
	u := p.underWay[pool]
	return u != nil && slices.ContainsFunc(u.freeing, func(w *write) bool { return w.key().N < below })
}
