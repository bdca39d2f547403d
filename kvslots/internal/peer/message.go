package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// purge returns the message that frees a key. Its marker outlives every earlier value
// of the key. That of a slot remembers the highest fence, and that of a configuration or a
// session whose it was.
func (k *kernel) purge(key entry.Key, revision uint64) entry.Message {
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	if key.Kind == entry.Config {
		m.TTL = k.view.Pool(key.Pool).MarkerLife(k.now)
	} else {
		k.view.Outlive(&m)
	}
	if key.Kind == entry.Slot {
		m.Fenced = k.view.Fenced()
	} else {
		m.Origin = k.view.OriginOf(key)
	}
	return m
}

// config returns the message that writes a pool's configuration.
func (k *kernel) config(pool entry.Hash, value entry.ConfigValue) entry.Message {
	key := rules.ConfigKey(pool)
	revision, _ := k.view.Latest(key)
	return entry.NewMessage(key, value, revision, 0)
}

// purgeConfig returns the message that ends a pool.
func (k *kernel) purgeConfig(pool entry.Hash) entry.Message {
	key := rules.ConfigKey(pool)
	revision, _ := k.view.Latest(key)
	return k.purge(key, revision)
}

// purgeSlot returns the message that frees a slot.
func (k *kernel) purgeSlot(s *rules.Slot) entry.Message {
	return k.purge(rules.SlotKey(s.Pool.ID, s.Position), s.Revision)
}

// value returns the message that writes a value to a key. It outlives every earlier
// value of the key. ttl is how long the value has a meaning.
func (k *kernel) value(key entry.Key, v any, revision uint64, ttl time.Duration) entry.Message {
	m := entry.NewMessage(key, v, revision, ttl+rules.Guard)
	k.view.Outlive(&m)
	return m
}
