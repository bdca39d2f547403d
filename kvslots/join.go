package kvslots

import (
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// enqueuedLife is how long an enqueued ticket stands at most. Its marker has to
// outlive it, so it cannot be as long as a session may live.
const enqueuedLife = 24 * time.Hour

// join sends a ticket for a borrower who has to wait.
func (b *bucket) join(lp *local, op *borrow) {
	if b.self.revision == 0 { // no presence to hold it: rejoin takes it up
		lp.queue = append(lp.queue, op)
		return
	}
	if op.manner == enqueues {
		if b.enqueuedBefore(op) {
			b.finish(lp, op, nil, ErrAlreadyEnqueued)
			return
		}
		op.name = ticketName{session: op.session, revision: op.ticketStood, enqueued: true}
	} else {
		op.name = b.takeName(lp)
	}
	b.sendTicket(lp, op)
}

func (b *bucket) sendTicket(lp *local, op *borrow) {
	op.ticketKey = entry.Key{Kind: entry.Ticket, Pool: lp.id, Session: op.name.session, N: op.name.n}
	value := entry.TicketValue{
		Session: op.name.session, Lease: op.hash, Incarnation: op.incarnation,
		Wait: entry.Span(max(op.wait, time.Millisecond)), Naming: op.naming,
		Owner: op.session,
	}
	if value.Owner.IsZero() {
		value.Owner = op.owner
	}
	lives := op.wait
	if op.manner == enqueues { // it stands for as long as its session lives, within reason
		value.Owner = entry.Hash{}
		value.TTL, value.Peer, value.Wait = entry.Span(op.ttl), b.self.id, entry.Span(entry.MaxSpan)
		lives = enqueuedLife
	}
	op.ticketAcked = 0
	lp.joining = append(lp.joining, op)
	lp.flight.Joining++
	name := op.name
	b.send(write(op.ticketKey, value, name.revision, lives), func(a ack) { b.joined(lp, op, name, a) })
}

// joined deals with the answer to a ticket. Success is what the view shows; it
// is then that one who has gone meanwhile loses the ticket again.
func (b *bucket) joined(lp *local, op *borrow, name ticketName, a ack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(lp.joining, op)
	if i < 0 || op.name != name {
		return // the view has shown it already
	}
	if a.err == nil {
		op.ticketAcked = a.revision
		b.dirty[lp.id] = struct{}{}
		b.follow()
		return
	}
	lp.joining = slices.Delete(lp.joining, i, i+1)
	lp.flight.Joining--
	switch {
	case errors.Is(a.err, errConflict) && name.enqueued: // enqueued elsewhere, perhaps
		op.ticketStood = a.revision
		lp.held = max(lp.held, a.revision)
	case errors.Is(a.err, errConflict):
		op.name.revision = a.revision // the name's marker was another
		if !op.over {
			b.sendTicket(lp, op)
			return
		}
		b.freeName(lp, op.name, a.revision)
	case errors.Is(a.err, errUnknown), errors.Is(a.err, errGone):
		key := op.ticketKey
		b.spoil(key, name.revision, func(actual uint64, entry bool) {
			if entry { // nobody else writes under that name
				b.release(key, actual, 0, b.freer(lp, name))
			} else {
				b.freeName(lp, name, actual)
			}
		})
	default:
		b.freeName(lp, name, name.revision)
	}
	if !op.over && b.failed(lp, op, a.err) {
		lp.queue = slices.Insert(lp.queue, 0, op)
	}
	b.dirty[lp.id] = struct{}{}
	b.follow()
}

func (b *bucket) freeName(lp *local, name ticketName, revision uint64) {
	if name.enqueued {
		return
	}
	name.revision, name.at = revision, b.now()
	lp.names = append(lp.names, name)
	b.tidy(lp)
}

// freer is what release is to do when a ticket's key is free.
func (b *bucket) freer(lp *local, name ticketName) func(uint64) {
	return func(revision uint64) { b.freeName(lp, name, revision) }
}
