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

// look finds the slot of a lease in the view.
func (b *bucket) look(id, lease entry.Hash) (h held, found, pool bool) {
	p := b.world.Pool(id)
	if p == nil || !p.Registered() {
		return h, false, false
	}
	s := p.Lease(lease)
	if s == nil {
		return h, false, true
	}
	return held{
		key: slotKey(id, s.Position), revision: s.Revision, at: s.Time, value: s.Value, fence: s.Fence,
		ended: s.Ended(b.now()),
	}, true, true
}

// find looks a lease up; when it seems not to be there, or to have ended, it
// asks the view again when that is certain to be new enough.
func (b *bucket) find(ctx context.Context, id, lease entry.Hash, ended bool) (held, error) {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return held{}, ErrClosed
	}
	h, found, pool := b.look(id, lease)
	b.mu.Unlock()
	if found && (!h.ended || ended) {
		return h, nil
	}
	err := b.ask(ctx, func() bool {
		h, found, pool = b.look(id, lease)
		return true
	})
	switch {
	case err != nil:
		return h, err
	case !pool:
		return h, ErrNoPool
	case !found || (h.ended && !ended):
		return h, ErrNotHeld
	}
	return h, nil
}

// giveBack purges the slot of a lease.
func (b *bucket) giveBack(ctx context.Context, id, lease entry.Hash) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h, err := b.find(ctx, id, lease, true)
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
		switch {
		case err != nil:
			return false, err
		case a.err == nil:
			return true, nil
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return false, err
		}
	}
}

// renew writes the lease again under its slot, and judges what it wrote: a
// renewal that reached the stream after the lease's end is none.
func (b *bucket) renew(ctx context.Context, id entry.Hash, lease uuid.UUID, ttl time.Duration) (*Lease, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h, err := b.find(ctx, id, leaseHash(lease), false)
		if err != nil {
			return nil, err
		}
		value := h.value
		value.TTL, value.Fence = entry.Span(ttl), h.fence
		sent := b.now()
		a, err := b.put1(ctx, write(h.key, value, h.revision, ttl))
		switch {
		case err != nil:
			return nil, err
		case a.err == nil:
			renewed, again, err := b.renewed(ctx, h, lease, a.revision, ttl, sent)
			if !again {
				return renewed, err
			}
			continue
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return nil, err
		}
	}
}

// renewed judges a renewal once the view has reached it. again says that
// somebody else renewed the lease meanwhile.
func (b *bucket) renewed(ctx context.Context, h held, lease uuid.UUID, revision uint64, ttl time.Duration, sent rules.Instant) (l *Lease, again bool, err error) {
	waitErr := b.askAt(ctx, revision, func() bool {
		s := slotOf(b.world.Pool(h.key.Pool), h.key.N)
		switch {
		case s == nil || !s.Live() || s.Value.Lease != h.value.Lease:
			err = ErrNotHeld // ended between the two
		case s.Revision != revision:
			again = true
		case s.Time.Sub(h.at) >= time.Duration(h.value.TTL) && !s.InTime():
			b.release(h.key, revision, h.value.Ticket, nil)
			err = ErrNotHeld
		default:
			now := b.now()
			kept := promise(ttl, time.Duration(now-sent))
			if kept <= 0 {
				err = ErrUnavailable
				return true
			}
			b.world.EndAt(s, revision, now.Add(kept))
			l = newLease(lease, s, kept)
		}
		return true
	})
	if waitErr != nil {
		return nil, false, waitErr
	}
	return l, again, err
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
