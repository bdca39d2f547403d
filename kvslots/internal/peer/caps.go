package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// quota is what a cap counts, and a write may add to.
type quota struct {
	of     counted
	holder entry.Hash // a session or an origin; zero: all
}

type counted uint8

const (
	ofPools    counted = iota // registered pools
	ofSessions                // client sessions
	ofNames                   // named pools in use
)

type limit struct {
	quota
	most int // 0: no cap
	have int // in the view
	err  error
}

func capOf(of counted, holder entry.Hash, most, have int, err error) limit {
	return limit{quota{of, holder}, most, have, err}
}

// reached returns the error of the first limit that is reached in the view. If none is, waits
// reports whether one is together with what this peer is writing. That may come to nothing, so the
// request is not refused: it waits until the writes have an outcome.
func (p *post) reached(limits ...limit) (waits bool, err error) {
	for _, l := range limits {
		switch {
		case l.most == 0:
		case l.have >= l.most:
			return false, l.err
		case l.have+p.charged[l.quota] >= l.most:
			waits = true
		}
	}
	return waits, nil
}

// reachedBy returns which cap forbids another pool or session of an origin: see reached.
func (p *post) reachedBy(origin entry.Hash, limits []limit) (waits bool, err error) {
	if p.view().TombstonesReach(p.settings().MaxTombstones, origin) {
		return false, ErrMaxTombstones
	}
	return p.reached(limits...)
}

// limitsOfName returns the caps that a use of a name by an origin may reach: on the names in use, and
// on those that the origin uses.
func (p *post) limitsOfName(pool *rules.Pool, origin entry.Hash) (limits []limit) {
	v := p.view()
	if pool == nil || !pool.InUseOrWaited() {
		limits = append(limits, capOf(ofNames, entry.Hash{}, p.settings().MaxLocks, v.InNames.Pools, ErrMaxLocks))
	}
	if !origin.IsZero() && !v.Uses(origin, pool) {
		limits = append(limits, capOf(ofNames, origin, p.settings().MaxLocksPerOrigin, v.NamesOf(origin), ErrMaxLocksPerOrigin))
	}
	return limits
}

// charge counts a write for the limits that it may reach, until it has an outcome.
func (w *write) charge(limits []limit) {
	for _, l := range limits {
		if l.most > 0 {
			put(&w.p.charged, l.quota, w.p.charged[l.quota]+1)
			w.charges = append(w.charges, l.quota)
		}
	}
}

func (w *write) discharge() {
	for _, q := range w.charges {
		if w.p.charged[q]--; w.p.charged[q] == 0 {
			delete(w.p.charged, q)
		}
	}
	w.charges = nil
}
