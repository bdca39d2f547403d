package bucket

import (
	"sync"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// maxDoubts is how many foreign entries are logged.
const maxDoubts = 1000

// doubts logs entries that are not kvslots's, each key once.
type doubts struct {
	log    zerolog.Logger
	mu     sync.Mutex
	logged map[string]struct{}
}

func (d *doubts) note(key string, why error) {
	d.mu.Lock()
	_, known := d.logged[key]
	if known || len(d.logged) >= maxDoubts {
		d.mu.Unlock()
		return
	}
	d.logged[key] = struct{}{}
	d.mu.Unlock()
	d.log.Warn().Stringer("key_hash", entry.HashOf("key", key)).Str("reason", why.Error()).
		Msg("foreign or corrupt entry in the bucket ignored")
}
