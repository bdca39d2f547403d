package rules

import "time"

// clockWindow is for how long at least an observation of the leader's clock counts.
const clockWindow = 10 * time.Second

// clockGap is a gap in the timestamps that may be a step of the leader's clock.
const clockGap = 5 * time.Second

// clock estimates when an entry was written, by this machine's clock. The least
// difference between an entry's arrival and its timestamp is that of the clocks,
// and the least delay. The difference between the sending of an entry of this
// peer's own and its timestamp is less than that of the clocks. By the lower of
// the two, a step of the leader's clock, or a watch that is behind, makes the
// estimate too early, not too late.
//
// A step forward shows as a gap in the timestamps, for peers write every few
// seconds. After it, and in a view that is new, nothing is known until an entry of
// this peer's own has come: all that came before may have waited for long.
type clock struct {
	last  time.Time        // the timestamp of the entry before
	tied  bool             // an entry of this peer's own has come since the clock was stepped last
	sent  time.Duration    // when that was sent, against its timestamp
	least [2]time.Duration // of the present window and the one before
	since Instant
	known bool
}

// writtenAt is when an entry that arrives now was written, at the latest.
func (c *clock) writtenAt(at time.Time, now Instant) Instant {
	d := time.Duration(int64(now) - at.UnixNano())
	if !c.last.IsZero() && at.Sub(c.last) > clockGap {
		c.tied = false
	}
	c.last = at
	switch {
	case !c.known:
		c.least, c.since, c.known = [2]time.Duration{d, d}, now, true
	case now.Sub(c.since) > clockWindow:
		c.least, c.since = [2]time.Duration{d, c.least[0]}, now
	default:
		c.least[0] = min(c.least[0], d)
	}
	if !c.tied {
		return 0
	}
	return min(now, Instant(at.UnixNano())+Instant(min(c.least[0], c.least[1], c.sent)))
}

// Calibrate notes when this peer sent an entry, and the timestamp that it got.
func (w *World) Calibrate(sent Instant, at time.Time) {
	w.clock.sent, w.clock.tied = time.Duration(int64(sent)-at.UnixNano()), true
}
