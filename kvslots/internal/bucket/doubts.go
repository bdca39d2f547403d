package bucket

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxDoubts is how many foreign entries are logged.
const maxDoubts = 1000

// doubt logs an entry that is not kvslots's, each key once.
func (b *Bucket) doubt(key string, why error) {
	first := false
	b.Look(func(*peer.Peer, peer.Instant) {
		_, known := b.doubts[key]
		if first = !known && len(b.doubts) < maxDoubts; first {
			b.doubts[key] = struct{}{}
		}
	})
	if first {
		b.log.Warn().Stringer("key_hash", entry.HashOf("key", key)).Str("reason", why.Error()).
			Msg("foreign or corrupt entry in the bucket ignored")
	}
}
