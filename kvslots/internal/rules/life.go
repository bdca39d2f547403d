package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// Guard is how much longer than a lease, a wait or a session its key lives.
	// NATS's own expiry only cleans up when no peer is alive: its marker is an
	// unconditional rollup, which would erase a renewal in flight; and a leader
	// whose clock is ahead, by up to ten minutes, must not end a lease.
	Guard = 11 * time.Minute

	// MarkerTTL is how long a marker lives at least.
	MarkerTTL = 2 * time.Minute

	// EnqueuedLife is how long an enqueued ticket lives, but for the guard, unless
	// it is written again. It stands for as long as its session.
	EnqueuedLife = 10 * time.Minute

	// DeletionTTL is how long the entry of a deleted pool lives.
	DeletionTTL = 30 * 24 * time.Hour

	// expiryLate is how late the server may drop an entry whose time is over: 4
	// to 8 s were measured after a leader's death.
	expiryLate = 10 * time.Second

	// lengthened is how much later than the one that it outlives a value may end and
	// not count for itself. A marker ends later than that by expiryLate at least.
	lengthened = expiryLate / 2

	// expiryNear is how close to its physical end an entry is not written over.
	expiryNear = 2 * time.Second
)

// life is how long the records of one key stay in the bucket: the present one,
// and, superseded, the earlier ones.
//
// The server keeps no tombstones (nats-server issue 8505). After an unclean stop
// it reads a superseded record as current if nothing newer of its key is left. So
// each entry must outlive every earlier value of its key. When that is, each entry
// says itself, as an instant of the leader's clock: were it counted anew by each
// writer, roundings and delays would add up on a busy key.
type life struct {
	present Instant // when the key's last entry ends
	longest int64   // when the last of all its values ends, in Unix milliseconds by the leader's clock
}

// extend notes another entry of the key.
func (l *life) extend(e *entry.Entry, now Instant, age time.Duration) {
	ttl := e.TTL
	if ttl == 0 {
		ttl = 10 * entry.MaxSpan // a configuration
	}
	l.present = now.Add(ttl - age)
	l.longest = max(l.longest, e.Outlives)
	l.lengthen(e, ttl)
}

// lengthen notes when a value ends, which is to live for ttl.
func (l *life) lengthen(e *entry.Entry, ttl time.Duration) {
	if e.Marker {
		return
	}
	// A value that was lengthened ends a little later than it had to. That is covered by
	// the markers, unless it took long to be written.
	end := e.Time.Add(ttl).UnixMilli()
	if e.Outlives == 0 || end > e.Outlives+lengthened.Milliseconds() {
		l.longest = max(l.longest, end)
	}
}

// short reports whether a marker may go before an earlier value of its key: the
// leader's clock was set back while it was on its way. Then it is written again.
func (l *life) short(e *entry.Entry) bool {
	return e.Marker && e.TTL > 0 && e.Key.Kind != entry.Config && e.Time.Add(e.TTL).UnixMilli() < l.longest
}

// Outlive sets the life of a message of this peer, which is to live for m.TTL at
// least. The view's time is never ahead of the leader's clock.
func (w *World) Outlive(m *entry.Message) {
	r := w.record(m.Key)
	if r == nil || w.Time.IsZero() {
		return
	}
	left := time.Duration(r.life.longest-w.Time.UnixMilli()) * time.Millisecond
	if m.Marker {
		left += expiryLate
	}
	if left > m.TTL {
		m.TTL = left
	}
	if left > 0 && (m.Marker || left == m.TTL) {
		m.Outlives = r.life.longest
	}
}
