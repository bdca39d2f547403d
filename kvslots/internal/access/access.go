// Package access is what a Store needs of the bucket: so package kvslots, which clients of gateways link,
// does without NATS.
package access

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Bucket is one peer's access to the bucket: see package bucket.
type Bucket interface {
	Do(ctx context.Context, r peer.Request) (peer.Answer, error)
	WithPeer(f func(p *peer.Peer, now peer.Instant))
	Ready() error
	Metrics() Metrics
	Time(at peer.Instant) time.Time
	Random() string
	ID() string
	Close(ctx context.Context)
}

// Metrics are counters since the bucket was opened, and gauges at one instant.
type Metrics struct {
	peer.Counters
	peer.Gauges

	Readings uint64 // ordered; the first one loads the view, and others catch up
	Foreign  uint64 // entries delivered that are not kvslots' own, or are corrupt

	LagRevisions uint64        // how far the view is behind the stream, as far as the server has said
	Lag          time.Duration // since the feed last delivered all that the server has shown
}
