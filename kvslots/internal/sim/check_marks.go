package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// markChecker checks what messages say about others: which values of the key an entry must
// outlive, and which owner has released a lock.
type markChecker struct {
	*checker
	longest map[entry.Key]int64               // when the last of a key's values ends, in Unix milliseconds
	release map[entry.Hash]map[string]Instant // by pool and hash of the owner: the last purge that names the owner
}

// lifeTolerance is by how much a value may end later than its Outlives says: see
// rules.lengthenTolerance.
const lifeTolerance = 5 * time.Second

func newMarkChecker(k *checker) markChecker {
	return markChecker{checker: k, longest: map[entry.Key]int64{}, release: map[entry.Hash]map[string]Instant{}}
}

func (k *markChecker) reset() { clear(k.longest) }

func (k *markChecker) loaded(e *entry.Entry) {
	if mustOutlive(e) {
		k.note(e)
	}
}

// mustOutlive reports whether an entry has to outlive the earlier values of its key. A
// configuration has no TTL, and a barrier no meaning.
func mustOutlive(e *entry.Entry) bool {
	return e.Key.Kind == entry.Slot || e.Key.Kind == entry.Ticket || e.Key.Kind == entry.Session
}

func (k *markChecker) note(e *entry.Entry) {
	longest := max(k.longest[e.Key], e.Outlives)
	if end := e.Time.Add(e.TTL).UnixMilli(); !e.Marker && (e.Outlives == 0 || end > e.Outlives+lifeTolerance.Milliseconds()) {
		longest = max(longest, end)
	}
	k.longest[e.Key] = longest
}

// applied checks an entry that is new in the stream, before truth takes it.
func (k *markChecker) applied(e *entry.Entry) {
	if !mustOutlive(e) {
		return
	}
	if e.Key.Kind == entry.Slot {
		k.checkOwner(e)
	}
	longest := k.longest[e.Key]
	k.note(e)
	if k.s.server.clockSteps > 0 || k.losses.ofKeys[e.Key] != 0 || longest <= e.Time.UnixMilli() {
		return // markers that a clock which was set back has made too short are written again
	}
	end, tolerance := e.Time.Add(e.TTL).UnixMilli(), int64(0)
	if !e.Marker {
		tolerance = lifeTolerance.Milliseconds()
	}
	switch {
	case end+tolerance < longest:
		k.s.fail("marks", "an earlier value of the key ends %v after %s, which lives for %v", time.Duration(longest-end)*time.Millisecond, describeEntry(e), e.TTL)
	case e.Marker && e.Previous != 0 && e.Outlives+lifeTolerance.Milliseconds() < longest:
		k.s.fail("marks", "the last value of the key ends in %v, and %s says in %v", left(e, longest), describeEntry(e), left(e, e.Outlives))
	}
}

func left(e *entry.Entry, at int64) time.Duration {
	return time.Duration(at-e.Time.UnixMilli()) * time.Millisecond
}

// checkOwner checks that a purge names no owner but that of the slot, and remembers it.
func (k *markChecker) checkOwner(e *entry.Entry) {
	if e.Owner == "" {
		return
	}
	if before := k.s.server.truth.pool(e.Key.Pool).slots[e.Key.N]; before == nil || e.Owner != ownerMarkOf(before.Slot.Owner) {
		k.s.fail("marks", "a purge names an owner that did not hold the lock: %s", describeEntry(e))
	}
	of := k.release[e.Key.Pool]
	if of == nil {
		of = map[string]Instant{}
		k.release[e.Key.Pool] = of
	}
	of[e.Owner] = k.s.now
}

func ownerMarkOf(owner string) string { return entry.HashOf("owner", owner).String() }

func (k *markChecker) releasedOwned(c *call, r peer.ReleaseOwned) {
	at, named := k.release[r.Pool][ownerMarkOf(r.Owner)]
	switch err := c.answer.Err; {
	case err == nil && !r.Force && (!named || at < c.start):
		k.wrong(c, fmt.Sprintf("no purge names %s", r.Owner))
	case isAny(err, peer.ErrAlreadyReleased) && !named:
		k.wrong(c, fmt.Sprintf("%s has never released the lock", r.Owner))
	case isAny(err, peer.ErrAlreadyReleased) && k.s.server.steppedAt == 0 && at.Add(rules.ReleaseMemory+time.Second+k.s.maxLatency()) < c.decided && k.s.faultState.settledAt(at):
		k.wrong(c, fmt.Sprintf("%s has released the lock %v ago", r.Owner, c.decided.Sub(at)))
	}
}
