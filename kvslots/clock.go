package kvslots

import (
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	tick     = 100 * time.Millisecond // how often what depends on time is looked at
	dueRetry = time.Second
	dueBatch = 256

	sweepPause = 10 * time.Second
)

// keepTime ends what has lasted long enough. The clock only decides when this
// peer writes: a lease is live until its purge is in the stream.
func (b *bucket) keepTime() {
	swept := time.Now()
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
				b.world.EachAble(func(p *rules.Pool) bool { b.dirty[p.ID] = struct{}{}; return true })
			}
			if now := time.Now(); now.Sub(swept) >= sweepPause && b.world.Exact() {
				b.sweepTickets()
				swept = now
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
		case d.Key.Kind == entry.Slot && b.hindered(d):
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
	left := b.leftBy(d.Key.Session)
	b.send(purge(d.Key, d.Revision, 0), func(a ack) {
		if a.err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		left()
	})
}

// leftBy takes down what a session has, for it to be purged when the session has
// ended. What it held is free by then, and it stands in no line; the keys are
// all that is left.
func (b *bucket) leftBy(session entry.Hash) (clear func()) {
	tickets, slots := b.world.TicketsOf(session), b.world.SlotsOf(session)
	held := make([]uint64, len(slots))
	for i, s := range slots {
		held[i] = s.Revision
	}
	return func() {
		for i, s := range slots {
			b.release(slotKey(s.Pool.ID, s.Position), held[i], 0, nil)
		}
		for _, t := range tickets {
			b.release(t.Key, t.Revision, 0, nil)
		}
	}
}

// sweepTickets purges what sessions left whose end somebody else began.
func (b *bucket) sweepTickets() {
	for _, t := range b.world.Unattended(dueBatch) {
		b.release(t.Key, t.Revision, 0, nil)
	}
}

// hindered tells whether a slot that is due cannot be purged yet. One that is
// taken, but holds nothing, is known for that in an exact view only. One whose
// session enqueued for it, and may yet ask what became of it, leaves word in
// the ticket first: once the slot has gone, nothing else says that the ticket
// has been served.
func (b *bucket) hindered(d rules.Due) bool {
	p := b.world.Pool(d.Key.Pool)
	s := slotOf(p, d.Key.N)
	if s == nil {
		return false
	}
	if s.Stale() && !b.world.Exact() {
		b.wantExact()
		return true
	}
	t := p.Ticket(s.Value.Ticket)
	if t == nil || !t.Value.Enqueued() {
		return false
	}
	if !s.Live() || !s.Value.Unseen {
		b.release(t.Key, t.Revision, 0, nil)
		return false
	}
	value := t.Value
	value.Spent = true
	b.send(write(t.Key, value, t.Revision, enqueuedLife), func(a ack) {
		if a.err != nil && !errors.Is(a.err, errConflict) {
			return // it comes up again
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.purging(d.Key, d.Revision)
		b.send(purge(d.Key, d.Revision, d.Ticket), func(a ack) { b.purged(d.Key, d.Revision, a) })
	})
	return true
}
