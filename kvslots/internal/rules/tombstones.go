package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// tombstones counts the keys of pools and client sessions that have ended. Their markers
// stay in the bucket for minutes, and name the origin.
type tombstones struct {
	Tombstones int   // of all origins
	left       tally // by origin
}

type endedKeys struct {
	origin entry.Hash // of the client that made the pool or the session; zero: not known
	keys   int        // 0 while it has not ended
}

// countEnded counts the keys of a pool or a session that has ended. origin is what the marker says;
// zero if it says nothing.
func (t *tombstones) countEnded(g *endedKeys, origin entry.Hash, keys int) {
	t.uncountEnded(g)
	if !origin.IsZero() {
		g.origin = origin
	}
	g.keys = keys
	t.Tombstones += keys
	t.left.add(g.origin, keys)
}

// uncountEnded counts them no more: they are gone, or the pool exists again.
func (t *tombstones) uncountEnded(g *endedKeys) {
	t.Tombstones -= g.keys
	t.left.add(g.origin, -g.keys)
	g.keys = 0
}

// TombstonesReach reports whether an origin may leave no more keys, if the limit for all
// origins together is most: it has left half of that, or the limit is reached and its part is
// at least an equal one. So no origin is refused for what others have left. 0 means no limit,
// and there is none for the zero origin.
func (t *tombstones) TombstonesReach(most int, origin entry.Hash) bool {
	own := t.left[origin]
	return most > 0 && (own >= (most+1)/2 || t.Tombstones >= most && own > 0 && own*len(t.left) >= most)
}

// endedPool is what the view keeps of a pool of which the bucket has nothing but the marker of
// its configuration. Clients may leave many of them, so it is a fraction of a Pool.
type endedPool struct {
	id  entry.Hash
	cfg record
	endedKeys
}
