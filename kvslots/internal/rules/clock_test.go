package rules

import (
	"testing"
	"time"
)

// observation is the arrival of an entry that was written at a reading of the leader's
// clock, and when this machine takes it to have been written at the latest.
type observation struct{ now, leader, want time.Duration }

func TestClock(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		sent, stamped time.Duration // an entry of this peer's own, if set
		see           []observation
	}{
		"nothing is known before an entry of its own has come": {see: []observation{{100 * s, 7 * s, 0}, {101 * s, 8 * s, 0}}},
		"a late entry was written as long ago as it was late": {sent: 101 * s, stamped: 7 * s, see: []observation{
			{100 * s, 7 * s, 100 * s}, {105 * s, 8 * s, 101 * s}, {106 * s, 13 * s, 106 * s},
		}},
		"a step of the leader's clock back makes the estimate too early": {sent: 101 * s, stamped: s, see: []observation{
			{100 * s, 60 * s, 100 * s}, {101 * s, 31 * s, 71 * s},
		}},
		"after a step ahead nothing is known": {sent: 101 * s, stamped: 7 * s, see: []observation{
			{100 * s, 7 * s, 100 * s}, {101 * s, 38 * s, 0}, {102 * s, 39 * s, 0},
		}},
		"an observation counts for two windows": {sent: 101 * s, stamped: s, see: []observation{
			{100 * s, 50 * s, 100 * s}, {111 * s, 31 * s, 81 * s}, {122 * s, 36 * s, 116 * s},
		}},
		"the sending of its own entry is earlier than what arrives": {sent: 99 * s, stamped: 7 * s, see: []observation{
			{100 * s, 7 * s, 99 * s}, {105 * s, 12 * s, 104 * s},
		}},
		"a late own entry is no better than what has arrived": {sent: 101 * s, stamped: 7 * s, see: []observation{{100 * s, 7 * s, 100 * s}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, epoch := New(), time.Unix(1_700_000_000, 0)
			if c.sent != 0 {
				w.Calibrate(Instant(c.sent), epoch.Add(c.stamped))
			}
			for _, o := range c.see {
				if got := w.clock.writtenAt(epoch.Add(o.leader), Instant(o.now)); got != Instant(o.want) {
					t.Errorf("at %v the entry of %v was written at %v, want %v", o.now, o.leader, time.Duration(got), o.want)
				}
			}
		})
	}
}

// After a step of the leader's clock ahead, an entry of this peer's own is the first to
// say anything.
func TestClockAfterStep(t *testing.T) {
	w, epoch := New(), time.Unix(1_700_000_000, 0)
	at := func(leader, now time.Duration) Instant { return w.clock.writtenAt(epoch.Add(leader), Instant(now)) }
	at(7*time.Second, 100*time.Second)
	if got := at(38*time.Second, 101*time.Second); got != 0 {
		t.Errorf("written at %v, want 0", time.Duration(got))
	}
	w.Calibrate(Instant(102*time.Second), epoch.Add(40*time.Second))
	if got := at(40*time.Second, 103*time.Second); got != Instant(102*time.Second) {
		t.Errorf("written at %v, want 1m42s", time.Duration(got))
	}
}
