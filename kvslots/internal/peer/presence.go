package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	presenceIdle    = 9 * time.Second
	presenceRefresh = presenceIdle / 3
)

// presence is this peer's own session: the peer's tickets stand for as long as the
// peer refreshes it. It owns no lease, so that a lease outlives the peer that granted
// it.
type presence struct {
	p        *Peer
	id       entry.Hash
	revision uint64  // in the view; 0 while the view does not show it
	seen     Instant // when the view last showed a refresh
	writing  bool
	again    bool // refresh it again after the present write
	leaving  bool
	timer    timer
	confirmation
}

func (s *presence) key() entry.Key { return rules.SessionKey(s.id) }

// refresh writes the presence, a new one if there is none. It refreshes by
// compare-and-swap and never re-creates a presence: one that is gone, or about to expire
// in the stream, is replaced by another one, with another id.
func (s *presence) refresh() {
	if s.p.closing || !s.p.watch.started {
		return
	}
	if s.writing {
		s.again = true
		return
	}
	if s.id.IsZero() {
		s.id = s.p.randomHash()
	}
	id := s.id
	revision, _ := s.p.view.Latest(s.key())
	if s.p.view.Expiring(s.key(), s.p.now) {
		s.forget()
		s.refresh()
		return
	}
	s.writing, s.again, s.begun = true, false, s.p.now
	value := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(presenceIdle)}
	s.p.writes.send(s.p.value(s.key(), value, revision, presenceIdle), func(a Ack) {
		if s.id == id {
			s.written(a)
		}
	})
}

func (s *presence) written(a Ack) {
	s.writing = false
	s.answered(a, s.revision)
	switch {
	case a.Outcome == Written:
		if s.again {
			s.refresh()
			return
		}
		s.refreshIn(presenceRefresh)
	case a.Outcome == Conflict && s.p.watch.mode == loading && a.Revision < s.revision:
		s.p.watch.replace(false) // the stream has lost what was loaded, and would refuse each refresh
	case a.Outcome == Conflict: // an earlier copy may have been written: wait for the view
		if s.p.watch.mode != live && s.revision == a.Revision { // delivered meanwhile
			s.refreshIn(notNowPause)
			return
		}
		s.again = true
		id := s.id
		s.p.reads.whenReached(a.Revision, func() {
			if s.id == id {
				s.refreshIn(notNowPause)
			}
		})
		s.refreshIn(presenceRefresh)
	default:
		s.refreshIn(notNowPause)
	}
}

func (s *presence) refreshIn(d time.Duration) {
	s.timer.fire = func() {
		if s.p.watch.mode == live && s.p.now.Sub(s.seen) > unseenLimit {
			s.p.watch.replace(true)
		}
		s.refresh()
	}
	s.p.timers.start(&s.timer, s.p.now.Add(d))
}

// applied handles the applied entry of a session. If it is the marker of this peer's
// presence, another peer has taken this one for dead.
func (s *presence) applied(e *entry.Entry) {
	if e.Key != s.key() || s.id.IsZero() {
		return
	}
	if !e.Marker {
		if s.revision == 0 { // borrows cannot join the line without it
			for _, ps := range s.p.pools.all() {
				ps.mark()
			}
		}
		s.revision, s.seen = e.Revision, s.p.now
		s.shown(e.Revision)
		if s.again && s.p.watch.mode != live && e.Revision <= s.p.watch.began {
			s.refresh() // caughtUp needs a refresh that was written after the watch began
		}
		return
	}
	s.leaving = false
	if s.p.closing {
		return
	}
	s.p.log(Warn, "another peer took this one for dead; its waiters get new tickets", "")
	s.forget()
	s.refresh()
}

// forget drops the presence, so that refresh creates another one. The borrows whose
// tickets end with it go back to their queues, in order of arrival. An enqueued ticket does
// not end with it, and may be served while its borrow still waits for the view to show it.
func (s *presence) forget() {
	*s = presence{p: s.p, seen: s.seen, timer: s.timer, confirmation: s.confirmation}
	for _, c := range s.p.calls.all() {
		if b := c.borrow; b != nil && b.phase != done && b.kind == forCall && b.ticket.key != (entry.Key{}) {
			b.loseTicket()
		}
	}
	for _, ps := range s.p.pools.all() {
		ps.nextNumber, ps.freeNumbers = 0, nil
	}
}

// leave purges the presence when the peer closes. The ends of the calls purge its
// tickets.
func (s *presence) leave() {
	s.p.timers.stop(&s.timer)
	if revision, taken := s.p.view.Latest(s.key()); taken {
		s.leaving = true
		s.p.writes.release(s.key(), revision, func(Ack) { s.leaving = false })
	}
}
