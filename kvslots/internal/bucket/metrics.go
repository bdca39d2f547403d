package bucket

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Metrics are the counts since Open, and measures of one instant.
type Metrics struct {
	peer.Counters
	peer.Gauges

	Watches uint64 // watches ordered; the first one is the load of the view
	Foreign uint64 // entries delivered that are not kvslots' own, or are corrupt

	LagRevisions uint64        // how far the view is behind the stream, as far as the server has said
	Lag          time.Duration // since the server last showed that nothing was left to be delivered
}

// Metrics returns what there is to measure. It takes time for each waiting ticket, under
// the lock.
func (b *Bucket) Metrics() (m Metrics) {
	b.Look(func(p *peer.Peer, now peer.Instant) {
		m.Counters, m.Gauges = p.Metrics(now)
		m.Watches, m.Foreign = b.watches, b.foreign
		m.LagRevisions, m.Lag = b.progress.lag(m.Revision), now.Sub(b.progress.level)
	})
	return m
}
