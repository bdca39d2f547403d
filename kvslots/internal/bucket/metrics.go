package bucket

import (
	"github.com/kvslots/kvslots/kvslots/internal/access"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Metrics returns the metrics. It holds the lock for a time that grows with the number of
// waiting tickets.
func (b *Bucket) Metrics() (m access.Metrics) {
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		m.Counters, m.Gauges = p.Metrics(now)
		m.Readings, m.Foreign = b.readings, b.foreign
		m.LagRevisions, m.Lag = b.progress.lag(m.Revision), now.Sub(b.progress.caughtUp)
	})
	return m
}
