package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// tombstones counts the keys of pools and client sessions that have ended. Their markers
// stay in the bucket for minutes, and name the origin.
type tombstones struct {
	Tombstones int   // of all origins
	left       tally // by origin
}

// grave is what one pool or session contributes.
type grave struct {
	origin entry.Hash // of the client that made the pool or the session; zero: not known
	keys   int        // 0 while it has not ended
}

// OriginOf returns the origin of the client that made a pool or a session, by the key of its
// configuration or of itself; zero if it is not known, and for other keys.
func (v *View) OriginOf(key entry.Key) entry.Hash {
	switch key.Kind {
	case entry.Config:
		if p := v.pools[key.Pool]; p != nil {
			return p.origin
		}
		if ended := v.ended[key.Pool]; ended != nil {
			return ended.origin
		}
	case entry.Session:
		if s := v.byID[key.Session]; s != nil {
			return s.origin
		}
	}
	return entry.Hash{}
}

// bury counts the keys of a pool or a session that has ended. origin is what the marker says;
// zero if it says nothing.
func (t *tombstones) bury(g *grave, origin entry.Hash, keys int) {
	t.exhume(g)
	if !origin.IsZero() {
		g.origin = origin
	}
	g.keys = keys
	t.Tombstones += keys
	t.left.add(g.origin, keys)
}

// exhume counts them no more: they are gone, or the pool exists again.
func (t *tombstones) exhume(g *grave) {
	t.Tombstones -= g.keys
	t.left.add(g.origin, -g.keys)
	g.keys = 0
}

// countGraves counts the keys of the pools that have ended, when all are loaded: their
// configurations' markers may have come before the markers of their slots.
func (v *View) countGraves() {
	for _, p := range v.pools {
		if p.grave.keys > 0 {
			v.bury(&p.grave, p.origin, p.keys())
		}
		v.reduce(p)
	}
}

// TombstonesReach reports whether an origin may leave no more keys, if the limit for all
// origins together is most: it has left half of that, or the limit is reached and its part is
// at least an equal one. So no origin is refused for what others have left. 0 means no limit,
// and there is none for the zero origin.
func (t *tombstones) TombstonesReach(most int, origin entry.Hash) bool {
	own := t.left[origin]
	return most > 0 && (own >= (most+1)/2 || t.Tombstones >= most && own > 0 && own*len(t.left) >= most)
}
