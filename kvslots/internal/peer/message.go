package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// purge returns the message that frees a key. Its marker outlives every earlier value
// of the key. That of a slot remembers the highest fence, and that of a configuration or a
// session whose it was.
func (p *post) purge(key entry.Key, revision uint64) entry.Message {
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	if key.Kind == entry.Config {
		m.TTL = p.view().Pool(key.Pool).MarkerLife(p.now())
	} else {
		p.view().Outlive(&m)
	}
	if key.Kind == entry.Slot {
		m.Fenced = p.view().Fenced()
	} else {
		m.Origin = p.view().OriginOf(key)
	}
	return m
}

func (p *post) config(pool entry.Hash, value entry.ConfigValue) entry.Message {
	key := rules.ConfigKey(pool)
	revision, _ := p.view().Latest(key)
	return entry.NewMessage(key, value, revision, 0)
}

func (p *post) purgeConfig(pool entry.Hash) entry.Message {
	key := rules.ConfigKey(pool)
	revision, _ := p.view().Latest(key)
	return p.purge(key, revision)
}

func (p *post) purgeSlot(s *rules.Slot) entry.Message {
	return p.purge(rules.SlotKey(s.Pool.ID, s.Position), s.Revision)
}

// value returns the message that writes a value to a key. It outlives every earlier
// value of the key. ttl is how long the value has a meaning.
func (p *post) value(key entry.Key, v any, revision uint64, ttl time.Duration) entry.Message {
	m := entry.NewMessage(key, v, revision, ttl+rules.Guard)
	p.view().Outlive(&m)
	return m
}
