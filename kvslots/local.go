package kvslots

import (
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	conflictPause = 5 * time.Millisecond  // after "some write is in flight"
	failurePause  = 50 * time.Millisecond // after "nobody took the write"
	releaseRetry  = 200 * time.Millisecond
)

// local is what this peer is doing in one pool. It is there only while
// somebody is at it.
type local struct {
	id          entry.Hash
	flight      rules.InFlight
	queue       []*borrow            // those who have come, in their order, and are not further yet
	joining     []*borrow            // their ticket is sent
	waiting     map[uint64]*borrow   // they stand in the line, by ticket
	claims      map[*borrow]struct{} // their claim is sent, and not judged yet
	refusing    map[*borrow]struct{} // they will be refused if the view still says so after a barrier
	promoting   map[uint64]*borrow   // those that stand for enqueued tickets, by ticket
	fresh       []*borrow            // their ticket has just come to stand in a named pool's line
	keyed       bool                 // the pool is a named one
	names       []ticketName         // free names of tickets
	named       int                  // names in use and free
	incarnation uint64               // of the pool, when it was last looked at
	undecided   bool                 // the pool seems to be gone, but the view is not exact
	held        uint64               // the view must reach this before anything is chosen
	paused      rules.Instant        // nothing is written before

	nameSession entry.Hash // whose numbers nextNumber counts
	nextNumber  int
}

// ticketName is a ticket's number that can be used again, with the last
// revision of its key.
type ticketName struct {
	session  entry.Hash
	n        int
	revision uint64
	at       rules.Instant
	enqueued bool // a client session's own: there is but one, and nobody else uses it
}

func (b *bucket) local(id entry.Hash) *local {
	lp := b.locals[id]
	if lp == nil {
		lp = &local{id: id}
		b.locals[id] = lp
	}
	return lp
}

// put makes an entry in a map that may not be there yet.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// all are the borrowers, in no order.
func (lp *local) all() []*borrow {
	ops := slices.Concat(lp.queue, lp.joining)
	for _, op := range lp.waiting {
		ops = append(ops, op)
	}
	for _, op := range lp.fresh {
		if op.manner == enqueues {
			ops = append(ops, op)
		}
	}
	for op := range lp.claims {
		ops = append(ops, op)
	}
	for op := range lp.refusing {
		if op.ticket == 0 { // else it is among those who wait
			ops = append(ops, op)
		}
	}
	return ops
}

// tidy forgets the local when nobody is at it. The names of tickets are kept
// for a while: afterwards the last revision of such a key has to be learnt from
// a conflict.
func (b *bucket) tidy(lp *local) {
	if len(lp.claims) == 0 && !lp.undecided {
		delete(b.claiming, lp)
	} else {
		b.claiming[lp] = struct{}{}
	}
	if len(lp.queue)+len(lp.joining)+len(lp.waiting)+len(lp.claims)+len(lp.refusing)+len(lp.fresh)+
		len(lp.flight.Claims)+len(lp.flight.Purges) > 0 || lp.named > len(lp.names) {
		return
	}
	for _, name := range lp.names {
		if b.now()-name.at < rules.Instant(rules.MarkerTTL) {
			b.idle[lp] = struct{}{}
			return
		}
	}
	delete(b.idle, lp)
	delete(b.locals, lp.id)
	b.world.Discard(lp.id)
}

// takeName gives the name of a ticket that is free, oldest first: its marker is
// the likeliest to be known for gone.
func (b *bucket) takeName(lp *local) ticketName {
	for len(lp.names) > 0 {
		last := len(lp.names) - 1
		name := lp.names[last]
		lp.names = lp.names[:last]
		if name.session != b.self.id {
			lp.named--
			continue
		}
		if b.now()-name.at > rules.Instant(b.lives.markerOf(entry.Key{Kind: entry.Ticket, Session: b.self.id}, b.self.id)) {
			name.revision = 0 // the marker has gone by now
		}
		return name
	}
	lp.named++
	return ticketName{session: b.self.id, n: b.nextName(lp)}
}

// nextName is the lowest number that no ticket of this presence has here.
func (b *bucket) nextName(lp *local) int {
	if lp.nameSession != b.self.id {
		lp.nameSession, lp.nextNumber = b.self.id, 0
	}
	lp.nextNumber++
	return lp.nextNumber - 1
}

// release purges a key that is this peer's own, or nobody's, at a revision. It
// tries until the key is known to be purged or to have changed; then it calls
// done with what is there.
func (b *bucket) release(key entry.Key, revision, ticket uint64, done func(revision uint64)) {
	b.releases++
	if key.Kind == entry.Slot {
		b.purging(key, revision)
	}
	b.send(purge(key, revision, ticket), func(a ack) {
		if key.Kind == entry.Slot {
			b.purged(key, revision, a)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case a.err == nil, errors.Is(a.err, errConflict):
			b.releases--
			if done != nil {
				done(a.revision)
			}
		case errors.Is(a.err, errGone):
			b.releases--
		default:
			time.AfterFunc(releaseRetry, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.releases--
				b.release(key, revision, ticket, done)
			})
		}
	})
}

// purging notes that a slot's purge is under way: no higher position is claimed
// before it is seen.
func (b *bucket) purging(key entry.Key, revision uint64) {
	lp := b.local(key.Pool)
	put(&lp.flight.Purges, key.N, revision)
}

// purged notes the answer: a purge that was not written will not be seen.
func (b *bucket) purged(key entry.Key, revision uint64, a ack) {
	if a.err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if lp := b.locals[key.Pool]; lp != nil && lp.flight.Purges[key.N] == revision {
		delete(lp.flight.Purges, key.N)
		b.dirty[lp.id] = struct{}{}
		b.follow()
	}
}

// spoil makes sure that a write of which nothing is known will not be found
// later: a purge at the same expected revision beats it, or finds what beat
// both. done is told what is there now, and whether it is somebody's entry: it
// may be the very write.
func (b *bucket) spoil(key entry.Key, expected uint64, done func(revision uint64, entry bool)) {
	b.releases++
	b.send(purge(key, expected, 0), func(a ack) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.releases--
		switch {
		case a.err == nil:
			done(a.revision, false)
		case errors.Is(a.err, errConflict):
			done(a.revision, true)
		case errors.Is(a.err, errGone):
		default:
			b.releases++
			time.AfterFunc(releaseRetry, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.releases--
				b.spoil(key, expected, done)
			})
		}
	})
}
