package bucket

import "github.com/kvslots/kvslots/kvslots/internal/entry"

const maxIgnored = 1000

// ignore counts a foreign or corrupt entry, and reports whether to log it, which it does
// once for each key.
func (g *guarded) ignore(key string) bool {
	g.foreign++
	if _, known := g.ignored[key]; known || len(g.ignored) == maxIgnored {
		return false
	}
	g.ignored[key] = struct{}{}
	return true
}

func (b *Bucket) logIgnored(key string, why error) {
	b.log.Warn("foreign or corrupt entry in the bucket ignored",
		"key_hash", entry.HashOf(entry.OfKey, key).String(), "reason", why.Error())
}
