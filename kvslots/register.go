package kvslots

import (
	"context"
	"errors"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// inspect reads a pool's state from the view. A claim that its peer may be
// about to withdraw is waited for.
func (b *bucket) inspect(ctx context.Context, id entry.Hash) (State, error) {
	var state State
	var found bool
	err := b.ask(ctx, func() bool {
		p := b.world.Pool(id)
		if found = p != nil && p.Registered(); !found {
			return true
		}
		state = stateOf(p)
		return !p.InDoubt(b.now())
	})
	if err == nil && !found {
		err = ErrNoPool
	}
	return state, err
}

func stateOf(p *rules.Pool) State {
	return State{Count: p.Count(), InUse: p.InUse(), Waiting: p.Waiting()}
}

// configOf is what the view knows of a pool's configuration.
func (b *bucket) configOf(id entry.Hash) (revision uint64, value entry.ConfigValue) {
	if p := b.world.Pool(id); p != nil {
		revision = p.ConfigRevision
		if p.Registered() {
			value = entry.ConfigValue{Count: p.Count(), Incarnation: p.Incarnation()}
		}
	}
	return revision, value
}

// register writes a pool's configuration, unless it is what it should be. exact
// says that the state is that of the very instant of the registration; a peer
// whose view skipped that instant can only tell a later one.
func (b *bucket) register(ctx context.Context, id entry.Hash, count int) (state State, exact bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := entry.Key{Kind: entry.Config, Pool: id}
	for {
		b.mu.Lock()
		expected, value := b.configOf(id)
		b.mu.Unlock()
		if value.Incarnation != 0 && value.Count == count {
			state, err := b.inspect(ctx, id)
			if err == nil && state.Count == count {
				return state, true, nil
			}
			if err != nil && !errors.Is(err, ErrNoPool) {
				return State{}, false, err
			}
			continue
		}
		value.Count = count
		if value.Incarnation == 0 {
			value.Incarnation = randomIncarnation()
		}
		c := &capture{expected: expected}
		stop := b.capturing(id, c)
		a, err := b.put1(ctx, write(key, value, expected, 0))
		if err == nil && a.err == nil {
			state, exact, err := b.registered(ctx, id, count, a.revision, c)
			stop()
			return state, exact, err
		}
		if stop(); err != nil {
			return State{}, false, err
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return State{}, false, err
		}
	}
}

// capture takes the state of a pool at the instant of a registration: an
// instant later, those whom it let in are in it.
type capture struct {
	expected uint64 // the revision that the registration is written over
	reading  *rules.Reading
}

// capturing keeps a capture in place while a registration is under way.
func (b *bucket) capturing(id entry.Hash, c *capture) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.captures[id] = append(b.captures[id], c)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		left := slices.DeleteFunc(b.captures[id], func(other *capture) bool { return other == c })
		if b.captures[id] = left; len(left) == 0 {
			delete(b.captures, id)
		}
	}
}

// capture is called when an entry has been applied.
func (b *bucket) capture(e entry.Entry) {
	if len(b.captures) == 0 || e.Key.Kind != entry.Config {
		return
	}
	for _, c := range b.captures[e.Key.Pool] {
		if c.expected == e.Previous {
			c.reading = b.world.Read(b.world.Pool(e.Key.Pool))
		}
	}
}

// registered is the state that a registration leaves.
func (b *bucket) registered(ctx context.Context, id entry.Hash, count int, revision uint64, c *capture) (state State, exact bool, err error) {
	err = b.askFrom(ctx, revision, func() bool {
		if c.reading != nil {
			state.InUse, exact = c.reading.InUse()
			state.Waiting = c.reading.Waiting
		}
		p := b.world.Pool(id)
		if exact || p == nil {
			return true
		}
		state = stateOf(p) // as soon afterwards as can be
		return !p.InDoubt(b.now())
	})
	state.Count = count
	return state, exact, err
}

// remove marks a pool as deleted, which ends its leases, and purges what it
// leaves: its incarnation never comes back.
func (b *bucket) remove(ctx context.Context, id entry.Hash) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := entry.Key{Kind: entry.Config, Pool: id}
	for {
		b.mu.Lock()
		expected, value := b.configOf(id)
		b.mu.Unlock()
		if value.Incarnation == 0 {
			if _, err := b.inspect(ctx, id); errors.Is(err, ErrNoPool) {
				return nil
			} else if err != nil {
				return err
			}
			continue
		}
		value.Deleted = true
		r := write(key, value, expected, 0)
		r.life = entry.DeletedLife // the configuration has no TTL, so no marker outlives it
		a, err := b.put1(ctx, r)
		switch {
		case err != nil:
			return err
		case a.err == nil:
			return b.askAt(ctx, a.revision, func() bool { b.clear(id, value.Incarnation); return true })
		}
		if err := b.afterConflict(ctx, id, a); err != nil {
			return err
		}
	}
}

// clear purges the slots and tickets of an incarnation that has been deleted.
func (b *bucket) clear(id entry.Hash, incarnation uint64) {
	p := b.world.Pool(id)
	if p == nil {
		return
	}
	p.Slots(func(s *rules.Slot) bool {
		if s.Value.Incarnation == incarnation {
			b.release(slotKey(id, s.Position), s.Revision, 0, nil)
		}
		return true
	})
	p.Tickets(func(t *rules.Ticket) bool {
		if t.Value.Incarnation == incarnation && t.Key.Session != b.self.id {
			b.release(t.Key, t.Revision, 0, nil)
		}
		return true
	})
}

// put1 sends one write and waits for its answer. A write that may or may not
// have happened is an error; one that certainly has not is an answer.
func (b *bucket) put1(ctx context.Context, r *record) (ack, error) {
	acked := make(chan ack, 1)
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return ack{}, ErrClosed
	}
	b.send(r, func(a ack) { acked <- a })
	b.mu.Unlock()
	select {
	case a := <-acked:
		if errors.Is(a.err, errUnknown) || errors.Is(a.err, errGone) || errors.Is(a.err, errRefused) {
			return a, unavailable(a.err)
		}
		return a, nil
	case <-ctx.Done():
		return ack{}, context.Cause(ctx)
	}
}

// afterConflict waits until it makes sense to try again: until the view has
// caught up with what is there.
func (b *bucket) afterConflict(ctx context.Context, id entry.Hash, a ack) error {
	if !errors.Is(a.err, errConflict) || a.revision == 0 {
		return b.pauseFor(ctx, id, a)
	}
	return b.askAt(ctx, a.revision, func() bool { return true })
}
