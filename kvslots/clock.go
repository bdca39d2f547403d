package kvslots

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	tick     = 100 * time.Millisecond // how often what depends on time is looked at
	dueRetry = time.Second
	dueBatch = 256
)

// keepTime ends what has lasted long enough. The clock only decides when this
// peer writes: a lease is live until its purge is in the stream.
func (b *bucket) keepTime() {
	for lookedAt := time.Now(); b.sleepOr(b.untilDue(), b.wakeClock); {
		if now := time.Now(); now.Sub(lookedAt) >= tick {
			b.writes.expire(now)
			lookedAt = now
		}
		b.mu.Lock()
		if b.loaded && !b.closing {
			b.endDue()
			if !b.world.Idle() {
				b.world.PassOver(b.now())
				b.world.Settle(b.now())
			}
			for lp := range b.claiming {
				b.dirty[lp.id] = struct{}{}
			}
			b.follow()
		}
		for lp := range b.idle {
			b.tidy(lp)
		}
		b.mu.Unlock()
	}
}

func (b *bucket) untilDue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.wakesAt = now.Add(tick)
	if next, ok := b.world.NextDue(); ok && b.loaded {
		b.wakesAt = min(b.wakesAt, max(next, now))
	}
	return time.Duration(b.wakesAt - now)
}

// endDue purges the keys whose time has come. One that fails comes up again.
func (b *bucket) endDue() {
	for _, d := range b.world.Due(b.now(), dueRetry, dueBatch) {
		switch {
		case d.Key.Kind == entry.Slot:
			b.purging(d.Key, d.Revision)
			b.send(purge(d.Key, d.Revision, d.Ticket), func(a ack) { b.purged(d.Key, d.Revision, a) })
		case d.Key != b.self.key():
			b.endSession(d)
		}
	}
}

// endSession purges a session that is idle, and then the keys of its tickets. A
// session's id is used once, so they can be nobody else's.
func (b *bucket) endSession(d rules.Due) {
	tickets := b.world.TicketsOf(d.Key.Session)
	b.send(purge(d.Key, d.Revision, 0), func(a ack) {
		if a.err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range tickets {
			b.release(t.Key, t.Revision, 0, nil)
		}
	})
}
