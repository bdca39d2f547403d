package bucket

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Metrics are counters since Open, and gauges at one instant.
type Metrics struct {
	peer.Counters
	peer.Gauges

	Readings uint64 // ordered; the first one loads the view, and others catch up
	Foreign  uint64 // entries delivered that are not kvslots' own, or are corrupt

	LagRevisions uint64        // how far the view is behind the stream, as far as the server has said
	Lag          time.Duration // since the feed last delivered all that the server has shown
}

// Metrics returns the metrics. It holds the lock for a time that grows with the number of
// waiting tickets.
func (b *Bucket) Metrics() (m Metrics) {
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		m.Counters, m.Gauges = p.Metrics(now)
		m.Readings, m.Foreign = b.readings, b.foreign
		m.LagRevisions, m.Lag = b.progress.lag(m.Revision), now.Sub(b.progress.caughtUp)
	})
	return m
}
