package rules_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var errUnreadable = errors.New("unreadable")

// stream is a model of the bucket's stream: dense sequences, history 1, and a
// compare-and-swap on each key's last revision.
type stream struct {
	sequence uint64
	last     map[entry.Key]entry.Entry
	ends     map[entry.Key]time.Time // when the last of a key's values ends
	log      []entry.Entry           // everything that was written, the overwritten entries included
	now      time.Duration
	skew     time.Duration // by how much the leader's clock was set
}

func newStream() *stream {
	return &stream{last: map[entry.Key]entry.Entry{}, ends: map[entry.Key]time.Time{}}
}

// time reads the leader's clock.
func (s *stream) time() time.Time { return time.Unix(1_000_000, 0).Add(s.now + s.skew) }

// instant reads the monotonic clock, the same for every peer.
func (s *stream) instant() rules.Instant { return rules.Instant(time.Hour + s.now) }

// revision returns a key's last revision, or 0 if its marker has expired.
func (s *stream) revision(key entry.Key) uint64 {
	e := s.last[key]
	if e.Marker && s.time().Sub(e.Time) > e.TTL {
		return 0
	}
	return e.Revision
}

// taken reports whether the key has a value, readable or not.
func (s *stream) taken(key entry.Key) bool {
	e, known := s.last[key]
	return known && !e.Marker
}

// write writes an entry over the key's last revision.
func (s *stream) write(e entry.Entry) *entry.Entry {
	e.Previous = s.revision(e.Key)
	return s.put(e)
}

// put writes an entry without an expected revision: a barrier, or the server's marker.
func (s *stream) put(e entry.Entry) *entry.Entry {
	s.sequence++
	e.Revision, e.Time = s.sequence, s.time()
	if e.TTL == 0 {
		e.TTL = s.life(&e)
	}
	if end := e.Time.Add(e.TTL); !e.Marker && end.After(s.ends[e.Key]) {
		s.ends[e.Key] = end
	}
	s.last[e.Key] = e
	s.log = append(s.log, e)
	return &s.log[len(s.log)-1]
}

// life returns how long a peer would let an entry live. A marker outlives every earlier
// value of its key.
func (s *stream) life(e *entry.Entry) time.Duration {
	switch {
	case e.Marker:
		return max(rules.MarkerTTL, s.ends[e.Key].Sub(e.Time).Truncate(time.Second)+10*time.Second)
	case e.Key.Kind == entry.Config:
		return 0
	case e.Ticket.Enqueued():
		return rules.EnqueuedLife + rules.Guard
	}
	return e.Slot.TTL.Duration() + e.Ticket.Wait.Duration() + e.Session.Idle.Duration() + rules.Guard
}

// newView returns an empty view that is live: it is given every entry.
func newView() *rules.View {
	v := rules.New()
	v.BecomeLive()
	return v
}

// feed writes an entry over the key's last revision, and applies it to the view.
func feed(s *stream, w *rules.View, e entry.Entry) uint64 {
	written := s.write(e)
	w.Apply(written, 0, s.instant())
	return written.Revision
}

func poolID(n int) entry.Hash    { return entry.HashOf("pool", fmt.Sprint(n)) }
func sessionID(n int) entry.Hash { return entry.HashOf("session", fmt.Sprint(n)) }
func leaseID(n int) entry.Hash   { return entry.HashOf("lease", fmt.Sprint(n)) }
func requestID(n int) entry.Hash { return entry.HashOf("request", fmt.Sprint(n)) }
func originID(n int) entry.Hash  { return entry.HashOf("origin", fmt.Sprint(n)) }

func barrierKey(id entry.Hash) entry.Key { return entry.Key{Kind: entry.Barrier, Session: id} }

func ticketKey(pool, session entry.Hash, n int) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session, N: n}
}

func marker(key entry.Key) entry.Entry  { return entry.Entry{Key: key, Marker: true} }
func corrupt(key entry.Key) entry.Entry { return entry.Entry{Key: key, Corrupt: errUnreadable} }

func config(pool entry.Hash, count int, generation uint64) entry.Entry {
	return entry.Entry{Key: rules.ConfigKey(pool), Config: entry.ConfigValue{Count: count, Generation: generation}}
}

func session(id entry.Hash, kind string, idle time.Duration) entry.Entry {
	return entry.Entry{Key: rules.SessionKey(id), Session: entry.SessionValue{Kind: kind, Idle: entry.Span(idle)}}
}

func alive(id entry.Hash) entry.Entry  { return session(id, entry.SessionPeer, 15*time.Second) }
func client(id entry.Hash) entry.Entry { return session(id, entry.SessionClient, 15*time.Second) }

func ticket(key entry.Key, lease entry.Hash, generation uint64) entry.Entry {
	return entry.Entry{Key: key, Ticket: entry.TicketValue{Lease: lease, Generation: generation, Wait: entry.Span(time.Minute)}}
}

// claim returns a claim of pool 1, generation 1, for ten seconds, unless v says otherwise.
func claim(position int, v entry.SlotValue) entry.Entry {
	if v.TTL == 0 {
		v.TTL = entry.Span(10 * time.Second)
	}
	if v.Generation == 0 {
		v.Generation = 1
	}
	return entry.Entry{Key: rules.SlotKey(poolID(1), position), Slot: v}
}
