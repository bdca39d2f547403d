package rules_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var errUnreadable = errors.New("unreadable")

// stream is the bucket as its leader has it: dense sequences, history 1, and a
// compare-and-swap on each key's last revision.
type stream struct {
	sequence uint64
	last     map[entry.Key]entry.Entry
	log      []entry.Entry // what was written, the overwritten included
	now      time.Duration
	mixed    bool // markers live for different times
}

func newStream() *stream { return &stream{last: map[entry.Key]entry.Entry{}} }

// time is the leader's clock.
func (s *stream) time() time.Time { return time.Unix(1_000_000, 0).Add(s.now) }

// instant is the same as a reading of everybody's monotonic clock.
func (s *stream) instant() rules.Instant { return rules.Instant(time.Hour + s.now) }

// revision is a key's last revision; a marker goes after its own life, silently.
func (s *stream) revision(key entry.Key) uint64 {
	e := s.last[key]
	if e.Marker && s.time().Sub(e.Time) > e.Life {
		return 0
	}
	return e.Revision
}

// taken tells whether the key has a value, readable or not.
func (s *stream) taken(key entry.Key) bool {
	e, known := s.last[key]
	return known && !e.Marker
}

// write is a peer's write. It fails when the key's revision is not the expected
// one.
func (s *stream) write(e entry.Entry, expected uint64) (revision uint64, ok bool) {
	if s.revision(e.Key) != expected {
		return s.revision(e.Key), false
	}
	e.Previous = expected
	return s.put(e).Revision, true
}

// put is what expects nothing: a barrier, or the server's own marker.
func (s *stream) put(e entry.Entry) entry.Entry {
	s.sequence++
	e.Revision, e.Time = s.sequence, s.time()
	if e.Marker {
		e.Life = rules.MarkerTTL
		if s.mixed {
			e.Life <<= s.sequence % 3
		}
	}
	s.last[e.Key] = e
	s.log = append(s.log, e)
	return e
}

// after is the first entry behind a sequence that has not been overwritten: what
// a reader that stands there is given next.
func (s *stream) after(sequence uint64) (entry.Entry, bool) {
	for _, e := range s.log[min(sequence, s.sequence):] {
		if s.last[e.Key].Revision == e.Revision {
			return e, true
		}
	}
	return entry.Entry{}, false
}

func poolID(n int) entry.Hash    { return entry.HashOf("pool", fmt.Sprint(n)) }
func sessionID(n int) entry.Hash { return entry.HashOf("session", fmt.Sprint(n)) }
func leaseID(n int) entry.Hash   { return entry.HashOf("lease", fmt.Sprint(n)) }

func configKey(pool entry.Hash) entry.Key { return entry.Key{Kind: entry.Config, Pool: pool} }

func slotKey(pool entry.Hash, position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: pool, N: position}
}

func ticketKey(pool, session entry.Hash, n int) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session, N: n}
}

func sessionKey(id entry.Hash) entry.Key { return entry.Key{Kind: entry.Session, Session: id} }
func barrierKey(id entry.Hash) entry.Key { return entry.Key{Kind: entry.Barrier, Session: id} }

func marker(key entry.Key) entry.Entry { return entry.Entry{Key: key, Marker: true} }

func corrupt(key entry.Key) entry.Entry { return entry.Entry{Key: key, Corrupt: errUnreadable} }

func config(pool entry.Hash, count int, incarnation uint64) entry.Entry {
	return entry.Entry{Key: configKey(pool), Config: entry.ConfigValue{Count: count, Incarnation: incarnation}}
}

func deleted(pool entry.Hash, incarnation uint64) entry.Entry {
	e := config(pool, 0, incarnation)
	e.Config.Deleted = true
	return e
}

func alive(session entry.Hash, idle time.Duration) entry.Entry {
	return entry.Entry{Key: sessionKey(session), Session: entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(idle)}}
}

func client(session entry.Hash, idle time.Duration) entry.Entry {
	e := alive(session, idle)
	e.Session.Kind = entry.SessionClient
	return e
}

func originID(n int) entry.Hash { return entry.HashOf("origin", fmt.Sprint(n)) }

func ticket(key entry.Key, lease entry.Hash, incarnation uint64) entry.Entry {
	return entry.Entry{Key: key, Wait: entry.TicketValue{
		Session: key.Session, Lease: lease, Incarnation: incarnation, Wait: entry.Span(time.Minute),
	}}
}

func namedTicket(key entry.Key, lease entry.Hash, n entry.Naming) entry.Entry {
	e := ticket(key, lease, n.Terms())
	e.Wait.Naming = n
	return e
}

// enqueued makes a ticket a client session's own, which that peer is to claim for.
func enqueued(e entry.Entry, peer entry.Hash) entry.Entry {
	e.Wait.Peer, e.Wait.TTL = peer, entry.Span(time.Minute)
	return e
}

func claim(key entry.Key, v entry.SlotValue) entry.Entry {
	if v.TTL == 0 {
		v.TTL = entry.Span(time.Minute)
	}
	return entry.Entry{Key: key, Slot: v}
}
