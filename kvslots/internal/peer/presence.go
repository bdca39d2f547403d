package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	presenceIdle    = 9 * time.Second
	presenceRefresh = presenceIdle / 3

	// refreshHurry is the time without an answer after which a refresh is sent again that the
	// view waits for to become live.
	refreshHurry = 100 * time.Millisecond

	// quietLimit is the time since the view's latest refresh was sent after which the stream may
	// have taken no writes: then sessions could not be refreshed, and none may end.
	quietLimit = presenceRefresh + time.Second
)

// presence is this peer's own session: the peer's tickets stand for as long as the
// peer refreshes it. It owns no lease, so that a lease outlives the peer that granted
// it.
type presence struct {
	k        *keeper
	id       entry.Hash
	revision uint64 // in the view; 0 while the view does not show it
	current  *write // the latest refresh; nil: none
	again    bool   // refresh it again after the present write
	shown    uint64 // the order of the latest refresh that the view shows
	timer    timer
	confirmation
}

func (f *keeper) self() entry.Hash { return f.presence.id }

func (f *keeper) selfKey() entry.Key { return rules.SessionKey(f.presence.id) }

func (f *keeper) isPresent() bool { return f.presence.revision != 0 }

// lastSeen returns when the latest refresh was sent that the view shows.
func (f *keeper) lastSeen() Instant { return f.presence.sentAt }

func (f *keeper) wasQuiet() bool { return f.presence.wasQuiet() }

func (s *presence) key() entry.Key { return rules.SessionKey(s.id) }

// refresh writes the presence, a new one if there is none. It refreshes by
// compare-and-swap and never re-creates a presence: one that is gone, or about to expire
// in the stream, is replaced by another one, with another id.
func (s *presence) refresh() {
	if s.k.isStopping() || s.k.stage == ordered {
		return
	}
	if s.current != nil && !s.current.isOver() {
		s.again = true
		s.hurry()
		return
	}
	if s.id.IsZero() {
		s.id = s.k.randomHash()
	}
	id := s.id
	revision, _ := s.k.view().Latest(s.key())
	if s.k.view().Expiring(s.key(), s.k.now()) {
		s.forget()
		s.refresh()
		return
	}
	s.again = false
	value := entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(presenceIdle)}
	s.current = s.k.put(s.k.value(s.key(), value, revision, presenceIdle), func(w *write) {
		if s.id == id {
			s.settled(w)
		}
	})
	s.hurry()
}

// hurry lets the presence be sent again sooner if the view waits for it to become live.
func (s *presence) hurry() {
	if s.k.mode != live {
		s.current.repeatEvery(refreshHurry)
	}
}

func (s *presence) settled(w *write) {
	switch {
	case w.written():
		s.shown = w.firstCopy()
		if s.wasQuiet() {
			s.k.view().Postpone(s.k.now())
		}
		s.confirm(w.sentAt())
		if s.again {
			s.refresh()
			return
		}
		s.refreshAt(w.sentAt().Add(presenceRefresh))
	case w.learnt():
		s.refresh()
	default:
		s.refreshAt(s.k.now().Add(notNowPause))
	}
}

func (s *presence) refreshAt(at Instant) {
	s.k.arm(&s.timer, at, func() {
		s.k.checkSeen()
		s.refresh()
	})
}

// applied handles the applied entry of a session. If it is the marker of this peer's
// presence, another peer has taken this one for dead.
func (s *presence) applied(e *entry.Entry) {
	if e.Key != s.key() || s.id.IsZero() {
		return
	}
	if !e.Marker {
		s.revision = e.Revision
		return
	}
	if s.k.isStopping() {
		return
	}
	s.k.log(Warn, "another peer took this one for dead; its waiters get new tickets", "")
	s.forget()
	s.refresh()
}

// wasQuiet reports whether the stream may have taken no writes for quietLimit. The latest refresh
// that the view shows may have come late, and may have been written as soon as it was sent.
func (s *presence) wasQuiet() bool { return s.k.now().Sub(s.sentAt) > quietLimit }

// forget drops the presence, so that refresh creates another one.
func (s *presence) forget() {
	*s = presence{k: s.k, timer: s.timer, confirmation: s.confirmation}
	s.k.host.presenceLost()
}

// leave purges the presence when the peer closes. The ends of the calls purge its
// tickets.
func (f *keeper) leave() {
	s := &f.presence
	s.k.disarm(&s.timer)
	if revision, taken := s.k.view().Latest(s.key()); taken {
		s.k.discard(s.key(), revision, nil)
	}
}
