package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// recent is the least number of entries that the check remembers.
const recent = 4096

// checkRounds is how many refreshes of this peer's presence the check awaits before
// an entry that is missing counts as lost.
const checkRounds = 4

// check compares the view with the stream, at each new watch: the stream may have
// lost its tail in a power cut, or may have been purged, deleted or created anew.
//
// The new watch begins at this peer's last presence. Each entry that it delivers at
// or below the view's revision must be one that the view holds; and each entry that
// the view holds from there on must be delivered again, or be overwritten.
type check struct {
	log         []logged            // the last entries applied
	from        uint64              // the first revision checked
	until       uint64              // the last revision checked: the view's when the check began
	rounds      int                 // how many refreshes of the presence it has awaited
	redelivered map[uint64]struct{} // the revisions that were delivered again
}

// logged is an applied entry in the check's log.
type logged struct {
	revision uint64
	key      entry.Key
	at       time.Time // zero until it is delivered
	own      *write    // of an entry that was applied and is not delivered yet; otherwise nil
}

// note adds an entry to the log. own is the write that wrote it, if its delivery is still
// to come.
func (c *check) note(e *entry.Entry, own *write) {
	if len(c.log) == 2*recent {
		c.log = c.log[:copy(c.log, c.log[recent:])]
	}
	c.log = append(c.log, logged{e.Revision, e.Key, e.Time, own})
}

func (c *check) find(revision uint64) *logged {
	i, found := slices.BinarySearchFunc(c.log, revision, func(s logged, r uint64) int { return cmp.Compare(s.revision, r) })
	if !found {
		return nil
	}
	return &c.log[i]
}

// beginCheck stops granting, and returns the first revision that the new watch has to
// deliver.
func (w *watch) beginCheck() (from uint64) {
	c := &w.check
	w.mode = checking
	w.p.counters.Checks++
	c.from = w.p.self.revision
	if len(c.log) > 0 {
		c.from = max(c.from, c.log[0].revision)
	}
	c.rounds, c.until, c.redelivered = 0, w.p.view.Revision, map[uint64]struct{}{}
	return c.from
}

// checkDelivery reports whether the view holds a delivered entry at or below its
// revision: the same entry, and as the last of its key.
func (w *watch) checkDelivery(e *entry.Entry) bool {
	c := &w.check
	if e.Revision > c.until || e.Revision < c.from {
		return true
	}
	s := c.find(e.Revision)
	if s == nil || s.key != e.Key || !s.at.IsZero() && !s.at.Equal(e.Time) {
		return false
	}
	c.redelivered[e.Revision] = struct{}{}
	latest, _ := w.p.view.Latest(e.Key)
	return latest == e.Revision || !tracked(e.Key)
}

// tracked reports whether the view keeps the revision of a key.
func tracked(key entry.Key) bool { return key.Kind != entry.Barrier && key.Kind != entry.Foreign }

// endCheck reports whether each entry that the check covers was delivered again, has
// been overwritten, or is a marker that may have expired.
func (w *watch) endCheck() bool {
	c := &w.check
	for i := range c.log {
		s := &c.log[i]
		if _, again := c.redelivered[s.revision]; again || s.revision < c.from || s.revision > c.until || !tracked(s.key) {
			continue
		}
		latest, taken := w.p.view.Latest(s.key)
		if latest == s.revision && (taken || !w.p.view.MarkerOld(s.key, w.p.now)) {
			return false
		}
	}
	c.redelivered = nil
	return true
}
