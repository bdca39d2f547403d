package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Caps count what the view shows. What is under way counts for none: peers that decide in the same instant, and a
// crowd at one peer, may exceed a cap by what they have in flight.

// reached returns err if a cap is reached. most is 0 if there is no cap.
func reached(have, most int, err error) error {
	if most > 0 && have >= most {
		return err
	}
	return nil
}

// tombstonesReached returns whether markers forbid another name, pool or session of an origin.
func (p *post) tombstonesReached(origin entry.Hash) error {
	if p.view().TombstonesReach(p.settings().MaxTombstones, origin) {
		return ErrMaxTombstones
	}
	return nil
}

// nameReached returns which cap forbids an origin the use of a name: that on the names in use, or that on those
// that the origin uses.
func (p *post) nameReached(pool *rules.Pool, origin entry.Hash) (err error) {
	v := p.view()
	if pool == nil || !pool.InUseOrWaited() {
		err = reached(v.InNames.Pools, p.settings().MaxLocks, ErrMaxLocks)
	}
	if err == nil && !origin.IsZero() && !v.Uses(origin, pool) {
		err = reached(v.NamesOf(origin), p.settings().MaxLocksPerOrigin, ErrMaxLocksPerOrigin)
	}
	return err
}
