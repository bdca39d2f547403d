package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// recent is how many of the entries applied last are remembered for the check, at
// least.
const recent = 4096

// checkRounds is how often this peer's presence is awaited before what is missing
// counts as lost.
const checkRounds = 4

// check holds the view against the stream, at each new watch: the stream may not
// be the one that the view was built from. A power cut may have taken its tail,
// or it was purged, deleted or created anew.
//
// The new watch begins at this peer's last presence. What it delivers at or below
// the view must be what the view holds; and what the view holds from there on must
// be delivered again, or be overwritten.
type check struct {
	log      []seen              // of the entries applied last
	presence uint64              // this peer's last presence in the view
	from     uint64              // where the check began
	until    uint64              // where the view stood then
	rounds   int                 // how often it had to go on
	again    map[uint64]struct{} // what was delivered again
}

// seen is an entry that was applied.
type seen struct {
	revision uint64
	key      entry.Key
	at       time.Time // zero while only its acknowledgement has come: see own
}

// note remembers an entry.
func (c *check) note(e *entry.Entry) {
	if len(c.log) == 2*recent {
		c.log = c.log[:copy(c.log, c.log[recent:])]
	}
	c.log = append(c.log, seen{e.Revision, e.Key, e.Time})
}

// stamp notes the time of an entry that was remembered without.
func (c *check) stamp(revision uint64, at time.Time) {
	if s := c.find(revision); s != nil {
		s.at = at
	}
}

// oldest is the lowest revision that is remembered; 0 if none is.
func (c *check) oldest() uint64 {
	if len(c.log) == 0 {
		return 0
	}
	return c.log[0].revision
}

func (c *check) find(revision uint64) *seen {
	i, found := slices.BinarySearchFunc(c.log, revision, func(s seen, r uint64) int { return cmp.Compare(s.revision, r) })
	if !found {
		return nil
	}
	return &c.log[i]
}

// beginCheck stops granting, and returns where the new watch has to begin.
func (w *watch) beginCheck() (from uint64) {
	c := &w.check
	w.mode = checking
	w.p.counters.Checks++
	c.from = max(c.oldest(), c.presence)
	c.rounds, c.until, c.again = 0, w.p.view.Revision, map[uint64]struct{}{}
	return c.from
}

// checkDelivery reports whether an entry at or below the view is what the view
// holds: the same entry, and the last of its key.
func (w *watch) checkDelivery(e *entry.Entry) bool {
	c := &w.check
	if e.Revision > c.until || e.Revision < c.from {
		return true
	}
	s := c.find(e.Revision)
	if s == nil || s.key != e.Key || !s.at.IsZero() && !s.at.Equal(e.Time) {
		return false
	}
	c.again[e.Revision] = struct{}{}
	stands, _ := w.p.view.Stands(e.Key)
	return stands == e.Revision || !tracked(e.Key)
}

// tracked reports whether the view knows at which revision a key stands.
func tracked(key entry.Key) bool { return key.Kind != entry.Barrier && key.Kind != entry.Foreign }

// endCheck reports whether all that the view held from the beginning of the check
// on was delivered again, or has been overwritten, or is a marker whose time is
// over.
func (w *watch) endCheck() bool {
	c := &w.check
	for i := range c.log {
		s := &c.log[i]
		if _, again := c.again[s.revision]; again || s.revision < c.from || s.revision > c.until || !tracked(s.key) {
			continue
		}
		stands, taken := w.p.view.Stands(s.key)
		if stands == s.revision && (taken || !w.p.view.MarkerOld(s.key, w.p.now)) {
			return false
		}
	}
	c.again = nil
	return true
}
