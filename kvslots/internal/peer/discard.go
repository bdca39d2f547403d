package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// unseenLife is how much later than the view's time the peer may have written a message
// that the view does not show yet.
const unseenLife = 20 * time.Second

// discard purges a key at a revision. No caller waits for that: the peer repeats the
// purge until the view shows that the key has another revision. done may be nil. A slot that is
// discarded is one that no caller was told of.
func (ws *writes) discard(key entry.Key, revision uint64, done func(resolution)) {
	m := ws.k.purge(key, revision)
	if key.Kind == entry.Slot {
		m.Cause = entry.Withdrawn
	}
	ws.discardAs(m, done)
}

func (ws *writes) discardAs(m entry.Message, done func(resolution)) {
	ws.discarding++
	view := ws.k.view
	ws.putIn(&ws.queues[discards], m, func(r resolution) {
		ws.discarding--
		if r.result == unknown && r.revision == 0 && ws.k.view == view {
			ws.discardAs(m, done)
			return
		}
		if done != nil {
			done(r)
		}
	})
}

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

// fenceOff makes sure that a write with unknown outcome takes no effect later. It purges the
// key at the revision that the write expects: either the purge wins the compare-and-swap, or
// the view shows what did. If that is the write itself, its entry is purged as an orphan. The
// marker outlives the write, which the view need not show yet.
//
// If the view was built anew since the write was sent, the revision means nothing any more,
// and nothing is sent.
func (w *write) fenceOff() {
	if w.view != w.k.view || len(w.ids) == 0 {
		return
	}
	m := w.k.purge(w.msg.Key, w.msg.Revision)
	m.TTL = max(m.TTL, w.msg.TTL+unseenLife)
	m.Outlives = max(m.Outlives, w.k.view.Time.Add(w.msg.TTL+unseenLife).UnixMilli())
	w.k.writes.discardAs(m, nil)
}
