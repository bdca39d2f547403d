package kvslots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// held is a live slot as it was when it was looked up.
type held struct {
	key      entry.Key
	revision uint64
	at       time.Time
	value    entry.SlotValue
	fence    uint64
	ended    bool // it has lasted its time, as far as this peer can tell
}

// wanted is the lease that somebody says to hold.
type wanted struct {
	pool, lease entry.Hash
	named       bool   // a lock or a semaphore, which are told by lock and fence
	lock        bool   // a lock, and not a semaphore
	fence       uint64 // of a named one; 0 for any
	unseen      bool   // one whose session has not asked for it yet
}

func (w wanted) is(s *rules.Slot) bool {
	if w.unseen && !s.Value.Unseen {
		return false
	}
	return !w.named || s.Value.Lock == w.lock && (w.fence == 0 || s.Fence == w.fence)
}

// look finds the slot of a lease in the view.
func (b *bucket) look(w wanted) (h held, found, pool bool) {
	id, lease := w.pool, w.lease
	p := b.world.Pool(id)
	if p == nil || !p.Registered() {
		return h, false, false
	}
	s := p.Lease(lease)
	if s == nil || !w.is(s) {
		return h, false, true
	}
	return held{
		key: slotKey(id, s.Position), revision: s.Revision, at: s.Time, value: s.Value, fence: s.Fence,
		ended: s.Ended(b.now()),
	}, true, true
}

// find looks a lease up; when it seems not to be there, it asks the view again
// when that is certain to be new enough.
func (b *bucket) find(ctx context.Context, w wanted) (held, error) {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return held{}, ErrClosed
	}
	h, found, pool := b.look(w)
	b.mu.Unlock()
	if found {
		return h, nil
	}
	err := b.ask(ctx, func() bool {
		h, found, pool = b.look(w)
		return true
	})
	switch {
	case err != nil:
		return h, err
	case !pool:
		return h, ErrNoPool
	case !found:
		return h, ErrNotHeld
	}
	return h, nil
}

// giveBack purges the slot of a lease. That the purge was written proves only
// that the slot had not changed; whether its pool had been deleted before, the
// view tells.
func (b *bucket) giveBack(ctx context.Context, w wanted) (bool, error) {
	id := w.pool
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h, err := b.find(ctx, w)
		if errors.Is(err, ErrNotHeld) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		b.mu.Lock()
		b.purging(h.key, h.revision)
		b.mu.Unlock()
		a, err := b.put1(ctx, purge(h.key, h.revision, h.value.Ticket))
		if err != nil || a.err != nil {
			b.purged(h.key, h.revision, ack{err: errNotSent})
		}
		if err != nil {
			return false, err
		}
		if a.err == nil {
			had := false
			err := b.askFrom(ctx, a.revision, func() bool {
				p := b.world.Pool(id)
				had = p != nil && p.Had(h.value.Incarnation, a.revision) && !b.world.EndedBefore(h.value.Session, a.revision)
				return true
			})
			if err != nil || had {
				return had, err
			}
			continue
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return false, err
		}
	}
}

// renew writes the lease again under its slot, and judges what it wrote: a
// renewal that reached the stream after the lease's end is none. A lease that
// has lasted its time is ended before the renewal is refused, so that nobody
// sees it as live afterwards.
//
// change, if it is not nil, changes what the slot says besides.
func (b *bucket) renew(ctx context.Context, w wanted, lease uuid.UUID, ttl time.Duration, change func(*entry.SlotValue)) (*Lease, error) {
	id := w.pool
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h, err := b.find(ctx, w)
		if err != nil {
			return nil, err
		}
		value := h.value
		value.TTL, value.Fence = entry.Span(ttl), h.fence
		if change != nil {
			change(&value)
		}
		m, sent := write(h.key, value, h.revision, ttl), b.now()
		if h.ended {
			m = purge(h.key, h.revision, h.value.Ticket)
		}
		a, err := b.put1(ctx, m)
		switch {
		case err != nil:
			return nil, err
		case a.err == nil && h.ended:
			return nil, ErrNotHeld
		case a.err == nil:
			renewed, err := b.renewed(ctx, h, lease, a.revision, ttl, sent)
			if renewed != nil || err != nil {
				return renewed, err
			}
			w.unseen, change = false, nil // that much has been written
			continue
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return nil, err
		}
	}
}

// renewed judges a renewal once the view has reached it. It returns neither a
// lease nor an error when the lease has to be looked up again.
func (b *bucket) renewed(ctx context.Context, h held, lease uuid.UUID, revision uint64, ttl time.Duration, sent rules.Instant) (l *Lease, err error) {
	late := false
	waitErr := b.askFrom(ctx, revision, func() bool {
		s := slotOf(b.world.Pool(h.key.Pool), h.key.N)
		if s == nil || s.Revision != revision {
			return true // ended, or renewed by somebody else
		}
		if s.Stale() { // its pool was deleted
			b.release(h.key, revision, 0, nil)
			return true
		}
		now := b.now()
		kept := promise(ttl, time.Duration(now-sent))
		late = s.Time.Sub(h.at) >= time.Duration(h.value.TTL) && !s.InTime()
		if !late && kept >= time.Second {
			b.world.EndAt(s, revision, now.Add(kept))
			l = newLease(nil, uuid.Nil, lease, s.Position, s.Fence, kept, b.origin.Add(time.Duration(now)))
		}
		return true
	})
	if waitErr != nil || !late {
		return l, waitErr
	}
	a, err := b.put1(ctx, purge(h.key, revision, h.value.Ticket))
	if err == nil && a.err == nil {
		err = ErrNotHeld
	}
	return nil, err
}

// pauseFor waits a little before a write that was not taken is tried again. A
// conflict that names no revision says that the key's marker has gone.
func (b *bucket) pauseFor(ctx context.Context, id entry.Hash, a ack) error {
	d := failurePause
	switch {
	case errors.Is(a.err, errInFlight):
		d = conflictPause
	case errors.Is(a.err, errConflict):
		d = 0
		b.mu.Lock()
		if p := b.world.Pool(id); p != nil {
			b.world.AbsentConfig(p)
		}
		b.mu.Unlock()
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// bounded bounds a call that would otherwise be repeated for as long as
// JetStream is away.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, ErrUnavailable)
}

func unavailable(why error) error { return fmt.Errorf("%w: %w", ErrUnavailable, why) }

func asInstant(d time.Duration) rules.Instant { return rules.Instant(d) }
