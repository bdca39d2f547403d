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
// The reading begins at this peer's last presence in the view when that was last live. No entry that it
// delivers may have the revision of another one in the log; and each entry that the view holds from
// there on must be delivered again, or be overwritten.
type check struct {
	log         []logged            // the last entries applied
	from        uint64              // the first revision checked
	until       uint64              // the last revision checked: the view's when the check began
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

// compare reports whether the log has an entry, or another entry with its revision. The log may have neither:
// the view skips entries that are overwritten before a reading comes to them, and a replica that is behind may
// deliver such an entry.
func (c *check) compare(e *entry.Entry) (same, other bool) {
	i, found := slices.BinarySearchFunc(c.log, e.Revision, func(s logged, r uint64) int { return cmp.Compare(s.revision, r) })
	same = found && c.log[i].key == e.Key && c.log[i].at.Equal(e.Time)
	return same, found && !same
}

// beginCheck stops granting, and returns the first revision that the reading has to
// deliver.
func (f *keeper) beginCheck() (from uint64) {
	c := &f.check
	if f.mode == live { // otherwise an earlier check has not ended, and this one begins at the same revision
		c.from = f.presence.revision
	}
	f.mode, f.view().Live = catching, false
	f.count().CatchUps++
	if len(c.log) > 0 {
		c.from = max(c.from, c.log[0].revision)
	}
	c.until, c.redelivered = f.view().Revision, map[uint64]struct{}{}
	return c.from
}

// checkDelivery notes a delivered entry, and reports whether the log has no other one of its revision.
func (f *keeper) checkDelivery(e *entry.Entry) bool {
	same, other := f.check.compare(e)
	if same {
		f.check.redelivered[e.Revision] = struct{}{}
	}
	return !other
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
