package kvslots

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	presenceIdle    = 9 * time.Second
	presenceRefresh = presenceIdle / 3
	presenceRetry   = 100 * time.Millisecond
)

// presence is this peer's own session: its tickets stand as long as it is
// refreshed. It owns no lease, so that a lease outlives the peer that granted
// it.
type presence struct {
	id       entry.Hash
	revision uint64 // 0 while it is not known to stand
	barrier  uint64 // the revision of its last barrier
}

func (p presence) key() entry.Key { return entry.Key{Kind: entry.Session, Session: p.id} }

// keepPresence writes the presence and refreshes it at a third of its idle
// time. It is refreshed by compare-and-swap and never re-created: when it is
// gone, another one takes its place.
func (b *bucket) keepPresence() {
	for {
		ok := b.writePresence()
		pause := presenceRefresh
		if !ok {
			pause = presenceRetry
		}
		if !b.sleepOr(pause, b.wakePresence) {
			return
		}
	}
}

// writePresence creates or refreshes the presence and waits for the answer.
func (b *bucket) writePresence() bool {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return true
	}
	if b.self.revision == 0 {
		b.self = presence{id: randomHash()}
	}
	self := b.self
	value := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(presenceIdle)}
	acked := make(chan ack, 1)
	b.send(write(self.key(), value, self.revision, presenceIdle), func(a ack) { acked <- a })
	b.mu.Unlock()

	a := <-acked
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.self.id != self.id:
		return false // lost while it was being refreshed
	case a.err == nil:
		b.self.revision = max(b.self.revision, a.revision)
		if self.revision == 0 {
			b.rejoin()
		}
		return true
	case errors.Is(a.err, errConflict), errors.Is(a.err, errUnknown) && self.revision == 0:
		b.forgetPresence()
	case errors.Is(a.err, errUnknown):
		// Refreshed or not: the view tells, when it comes to it.
	}
	b.log.Debug().Err(a.err).Msg("presence not written")
	return false
}

// presenceSeen keeps the presence's revision up to date with the view, and
// notices that another peer has taken it for dead.
func (b *bucket) presenceSeen(e entry.Entry) {
	if e.Key.Kind != entry.Session || e.Key != b.self.key() {
		return
	}
	if !e.Marker {
		if b.self.revision != 0 {
			b.self.revision = max(b.self.revision, e.Revision)
		}
		return
	}
	if b.closing {
		return // our own purge
	}
	b.log.Warn().Msg("another peer took this one for dead; its waiters get new tickets")
	b.forgetPresence()
}

// forgetPresence makes way for another presence.
func (b *bucket) forgetPresence() {
	b.self = presence{}
	poke(b.wakePresence)
}

// rejoin gives those whose tickets went with an earlier presence new ones, in
// their order, and takes everybody up who came while there was none.
func (b *bucket) rejoin() {
	var lost []*borrow
	for _, lp := range b.locals {
		for ticket, op := range lp.waiting {
			if op.ticketKey.Session == b.self.id || op.manner == promotes {
				continue
			}
			delete(lp.waiting, ticket)
			b.release(op.ticketKey, op.ticket, 0, b.freer(lp, op.name))
			lost = append(lost, op)
		}
		b.dirty[lp.id] = struct{}{}
	}
	slices.SortFunc(lost, func(x, y *borrow) int { return cmp.Compare(x.ticket, y.ticket) })
	for _, op := range lost {
		op.ticket = 0
		b.join(b.locals[op.pool], op)
	}
	if b.loaded {
		b.follow()
	}
}
