package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// largeSweep is the number of seeds from which a sweep must meet what is rare, too.
const largeSweep = 5000

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
// traps, answers and transitions. Small sweeps need not meet what is rare.
func (c Coverage) missing(seeds int) (missing []string) {
	want := slices.Clone(wantedTraps)
	if seeds >= largeSweep {
		want = append(want, rareTraps...)
	}
	for f := range faults {
		if f != outage || seeds >= largeSweep {
			want = append(want, "fault: "+f.String())
		}
	}
	for _, t := range stream.AllTraps() {
		if !avoided(t) && (!rare(t) || seeds >= largeSweep) {
			want = append(want, "stream: "+t.String())
		}
	}
	for what := range wantedAnswers(seeds >= largeSweep) {
		want = append(want, what)
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

// unlisted returns the kinds of answers that a sweep has met, and that answers does not
// list: no sweep would miss them.
func (c Coverage) unlisted() (unlisted []string) {
	listed := wantedAnswers(true)
	for _, what := range slices.Sorted(maps.Keys(c)) {
		request, _, isAnswer := strings.Cut(strings.TrimPrefix(what, "answer: "), " ")
		_, known := answers[request]
		if isAnswer && known && strings.HasPrefix(what, "answer: ") && !listed[what] {
			unlisted = append(unlisted, what)
		}
	}
	return unlisted
}

// avoided reports whether peers avoid a trap: they round up TTLs that the server would
// cut, create a stream with higher sequences than before, and write to no key that is about
// to expire (TestNoWriteToExpiringKey).
func avoided(t stream.Trap) bool {
	return t == stream.FirstSequenceBack || t == stream.TTLCut || t == stream.ErasedAfterAck
}

func rare(t stream.Trap) bool {
	return t == stream.LateAfterDeath || t == stream.Revived || t == stream.SupersededLost || t == stream.EarlyExpiry
}

// rareTraps are traps that some sweeps of 300 seeds do not meet.
var rareTraps = []string{"trap: write kept in a cut", "trap: silent reading", leaseTakenOver, twoClaims}

var wantedTraps = []string{
	"trap: queue full", "trap: write lost", "trap: write lost in a cut", "trap: no answer",
	"trap: ack lost", "trap: ack late", "trap: ack lost in a cut", "trap: no reading to be had", "trap: delay spike",
	"trap: reading lost", "trap: feed lost", "trap: unclear answer", "trap: refused for good",
	"trap: reading from a replica that is behind", "trap: reading from a deposed leader",
	"trap: entry lost", "trap: last entry lost", "trap: entry while the feed stands still", "trap: buffer dropped", "trap: delivery lost in a cut",
	"trap: outage", "trap: entry not republished", "trap: entry repeated", "trap: entry lost on a cut route",
	"trap: late write", "trap: late write after its refusal", "trap: another server", "trap: no answer of a server that is cut off",
	"trap: refused by a leader that is cut off", "trap: refused by a deposed leader", "trap: refused and stored",
	"gave up", "closed idle", "pool unregistered", "pool restored",
	loadedBeside,
	"peer: skips", "peer: voids", "peer: conflicts", "peer: barriers", "peer: rebuilds", "peer: catch-ups", "peer: resent",
	"answer: grant told after a flush", "answer: grant told too late", "answer: untold grant",
}
