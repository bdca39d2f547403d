package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// merge adds the counts of another run.
func (c Coverage) merge(o Coverage) {
	for what, n := range o {
		c[what] += n
	}
}

// String returns all counts, sorted by name.
func (c Coverage) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%10d %s\n", c[what], what)
	}
	return b.String()
}

// missing returns what a sweep of that many seeds must exercise and has not: faults,
// traps, refusals and transitions. Small sweeps need not meet what is rare.
func (c Coverage) missing(seeds int) (missing []string) {
	want := slices.Concat(wantedTraps, wantedAnswers)
	for f := range faults {
		want = append(want, "fault: "+f.String())
	}
	for _, t := range stream.AllTraps() {
		if !avoided(t) && (!rare(t) || seeds >= 5000) {
			want = append(want, "stream: "+t.String())
		}
	}
	for what := range c {
		if strings.HasPrefix(what, "phase: ") {
			want = append(want, what)
		}
	}
	slices.Sort(want)
	for _, what := range slices.Compact(want) {
		if c[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// avoided reports whether peers avoid a trap: they round up TTLs that the server would
// cut, and write to no key that is about to expire.
func avoided(t stream.Trap) bool {
	return t == stream.FirstSequenceBack || t == stream.TTLCut || t == stream.ErasedAfterAck
}

func rare(t stream.Trap) bool {
	return t == stream.LateAfterDeath || t == stream.Revived || t == stream.SupersededLost
}

var wantedTraps = []string{
	"trap: queue full", "trap: write lost", "trap: write lost in a cut", "trap: write kept in a cut", "trap: no answer",
	"trap: ack lost", "trap: ack late", "trap: ack lost in a cut", "trap: no watch to be had", "trap: fetched",
	"trap: silent watch", "trap: watch lost", "trap: delay spike", "gave up", "closed idle", "pool unregistered", "pool restored",
	"peer: skips", "peer: voids", "peer: conflicts", "peer: barriers", "peer: rebuilds", "peer: checks", "peer: resent",
}

var wantedAnswers = []string{
	"answer: Borrow ok", "answer: Borrow no such pool", "answer: Borrow no resource available", "answer: Borrow store unavailable",
	"answer: Borrow store closed", "answer: Acquire ok", "answer: Acquire no resource available", "answer: Acquire session gone",
	"answer: Acquire limit mismatch", "answer: Acquire too many locks and semaphores", "answer: Acquire too many waiters",
	"answer: Acquire store unavailable", "answer: Enqueue ok", "answer: Enqueue queued", "answer: Enqueue already enqueued",
	"answer: Enqueue limit mismatch", "answer: Enqueue session gone", "answer: Await ok", "answer: Await no resource available",
	"answer: Await not enqueued", "answer: Await lease expired before it was seen", "answer: Await session gone",
	"answer: Await place in line kept", "answer: Return returned", "answer: Return not returned", "answer: Return no such pool",
	"answer: Return session gone", "answer: Renew ok", "answer: Renew lease not held", "answer: Renew no such pool",
	"answer: Renew session gone", "answer: ReleaseOwned ok", "answer: ReleaseOwned lease not held",
	"answer: ReleaseOwned lock is owned by another", "answer: ReleaseOwned lock was already released by this owner",
	"answer: InspectOwned ok", "answer: InspectOwned lease not held", "answer: Register ok", "answer: Register store unavailable",
	"answer: Inspect ok", "answer: Inspect no such pool", "answer: Inspect store unavailable", "answer: Delete ok",
	"answer: CreateSession ok", "answer: CreateSession too many sessions", "answer: CreateSession too many sessions of one origin",
	"answer: Ping ok", "answer: Ping session gone", "answer: Ping store unavailable", "answer: EndSession ok",
	"answer: EndSession session gone", "answer: ReadStats ok", "answer: Follow ok", "answer: grant told after a flush", "answer: grant told too late",
	"answer: untold grant",
}
