package bucket

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxIgnored is how many foreign or corrupt entries are logged at most.
const maxIgnored = 1000

// logIgnored logs a foreign or corrupt entry, once for each key.
func (b *Bucket) logIgnored(key string, why error) {
	first := false
	b.Look(func(*peer.Peer, peer.Instant) {
		b.foreign++
		_, known := b.ignored[key]
		if first = !known && len(b.ignored) < maxIgnored; first {
			b.ignored[key] = struct{}{}
		}
	})
	if first {
		b.log.Warn().Stringer("key_hash", entry.HashOf("key", key)).Str("reason", why.Error()).
			Msg("foreign or corrupt entry in the bucket ignored")
	}
}
