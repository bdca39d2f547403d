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
// seconds. After it nothing is known until an entry of this peer's own has come.
type clock struct {
	last    time.Time // the timestamp of the entry before
	stepped bool
	sent    time.Duration // when an entry of this peer's own was sent, against its timestamp
	isSent  bool
	least   [2]time.Duration // of the present window and the one before
	since   Instant
	known   bool
}

// writtenAt is when an entry that arrives now was written, at the latest.
func (c *clock) writtenAt(at time.Time, now Instant) Instant {
	d := time.Duration(int64(now) - at.UnixNano())
	if !c.last.IsZero() && at.Sub(c.last) > clockGap {
		c.stepped = true
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
	if c.stepped {
		return 0
	}
	d = min(c.least[0], c.least[1])
	if c.isSent {
		d = min(d, c.sent)
	}
	return min(now, Instant(at.UnixNano())+Instant(d))
}

// Calibrate notes when this peer sent an entry, and the timestamp that it got.
func (w *World) Calibrate(sent Instant, at time.Time) {
	w.clock.sent, w.clock.isSent = time.Duration(int64(sent)-at.UnixNano()), true
	w.clock.stepped = false
}
