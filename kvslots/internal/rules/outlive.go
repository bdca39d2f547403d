package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// MarkerLife returns how long the marker of a pool's configuration lives. It cannot outlive
// the configuration, which has no TTL: what may come back after it is a pool without leases.
// So it outlives the values of slots and tickets, which would come back with the pool. And it
// outlives what a peer may load from a replica that is behind, by a leader's clock that is
// ahead.
func (p *Pool) MarkerLife(now Instant) time.Duration {
	longest := now.Add(Guard + MarkerTTL)
	if p == nil {
		return longest.Sub(now)
	}
	for s := range p.Slots {
		longest = max(longest, s.life.present.Add(expiryLate))
	}
	for t := range p.Tickets {
		longest = max(longest, t.life.present.Add(expiryLate))
	}
	return longest.Sub(now)
}

// Outlive extends m.TTL so that the message outlives every earlier value of its key, and
// sets m.Outlives if it needs to. The leader's clock has reached the view's time.
func (v *View) Outlive(m *entry.Message) {
	r := v.record(m.Key)
	if r == nil || v.Time.IsZero() {
		return
	}
	left := time.Duration(r.life.longest-v.Time.UnixMilli()) * time.Millisecond
	if m.Marker {
		left += expiryLate
	}
	if left > m.TTL {
		m.TTL = left
	}
	if left > 0 && (m.Marker || left == m.TTL) {
		m.Outlives = r.life.longest
	}
}
