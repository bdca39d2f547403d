package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// recent is the least number of entries that the check remembers.
const recent = 4096

// check compares the view with the stream, at each catch-up: the stream may have
// lost its tail in a power cut, or may have been purged, deleted or created anew.
//
// The reading begins at this peer's last presence in the view when that was last live. Each entry that it delivers at
// or below the view's revision must be one that the view holds; and each entry that
// the view holds from there on must be delivered again, or be overwritten.
type check struct {
	log         []logged            // the last entries applied
	from        uint64              // the first revision checked
	until       uint64              // the last revision checked: the view's when the check began
	dense       uint64              // the view's when it was last live: it has every entry up to there, or what overwrote it
	redelivered map[uint64]struct{} // the revisions that were delivered again
}

type logged struct {
	revision uint64
	key      entry.Key
	at       time.Time
}

func (c *check) note(e *entry.Entry) {
	if len(c.log) == 2*recent {
		c.log = c.log[:copy(c.log, c.log[recent:])]
	}
	c.log = append(c.log, logged{e.Revision, e.Key, e.Time})
}

func (c *check) find(revision uint64) *logged {
	i, found := slices.BinarySearchFunc(c.log, revision, func(s logged, r uint64) int { return cmp.Compare(s.revision, r) })
	if !found {
		return nil
	}
	return &c.log[i]
}

// beginCheck stops granting, and returns the first revision that the reading has to
// deliver.
func (f *keeper) beginCheck() (from uint64) {
	c := &f.check
	if f.mode == live { // otherwise the check before has not ended, and nothing that it began with is compared
		c.dense, c.from = f.view().Revision, f.presence.revision
	}
	f.mode, f.view().Live = catching, false
	f.count().CatchUps++
	if len(c.log) > 0 {
		c.from = max(c.from, c.log[0].revision)
	}
	c.until, c.redelivered = f.view().Revision, map[uint64]struct{}{}
	return c.from
}

// checkDelivery reports whether the view has had a delivered entry at or below its
// revision. A replica that is behind may deliver one that was overwritten since, and that
// an earlier reading has skipped: the view may have what overwrote it only when it is live.
func (f *keeper) checkDelivery(e *entry.Entry) bool {
	c := &f.check
	if e.Revision > c.until || e.Revision < c.from {
		return true
	}
	s := c.find(e.Revision)
	if latest, _ := f.view().Latest(e.Key); s == nil && (latest > e.Revision || e.Revision > c.dense || !tracked(e.Key)) {
		return true
	}
	if s == nil || s.key != e.Key || !s.at.Equal(e.Time) {
		return false
	}
	c.redelivered[e.Revision] = struct{}{}
	return true
}

func tracked(key entry.Key) bool { return key.Kind != entry.Barrier && key.Kind != entry.Foreign }

// endCheck reports whether each entry that the check covers was delivered again, has
// been overwritten, or is a marker that may have expired.
func (f *keeper) endCheck() bool {
	c := &f.check
	for i := range c.log {
		s := &c.log[i]
		if _, again := c.redelivered[s.revision]; again || s.revision < c.from || s.revision > c.until || !tracked(s.key) {
			continue
		}
		latest, taken := f.view().Latest(s.key)
		if latest == s.revision && (taken || !f.view().MarkerOld(s.key, f.now())) {
			return false
		}
	}
	c.redelivered = nil
	return true
}
