package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

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

// limit is a cap on a quota.
type limit struct {
	quota
	most int // 0: no cap
	have int // in the view
	err  error
}

// reached returns the error of the first limit that is reached in the view. If none is, waits
// reports whether one is together with what this peer is writing. That may come to nothing, so the
// request is not refused: it waits until the writes have an outcome.
func (ws *writes) reached(limits ...limit) (waits bool, err error) {
	for _, l := range limits {
		switch {
		case l.most == 0:
		case l.have >= l.most:
			return false, l.err
		case l.have+ws.charged[l.quota] >= l.most:
			waits = true
		}
	}
	return waits, nil
}

// reached returns which cap forbids another pool or session of an origin: see writes.reached.
func (k *kernel) reached(origin entry.Hash, limits []limit) (waits bool, err error) {
	if k.view.TombstonesReach(k.cfg.MaxTombstones, origin) {
		return false, ErrMaxTombstones
	}
	return k.writes.reached(limits...)
}

// charge counts a write for the limits that it may reach, until it has an outcome.
func (w *write) charge(limits []limit) {
	for _, l := range limits {
		if l.most > 0 {
			put(&w.k.writes.charged, l.quota, w.k.writes.charged[l.quota]+1)
			w.charges = append(w.charges, l.quota)
		}
	}
}

func (w *write) discharge() {
	for _, q := range w.charges {
		if w.k.writes.charged[q]--; w.k.writes.charged[q] == 0 {
			delete(w.k.writes.charged, q)
		}
	}
	w.charges = nil
}
