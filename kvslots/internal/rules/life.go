package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// Guard is how much longer than a lease, a wait or a session its key lives. So NATS's
	// own expiry only cleans up when no peer is alive. It must not end a lease: the
	// server's marker is an unconditional rollup, which would erase a renewal in flight,
	// and the leader's clock may be ahead by up to ten minutes.
	Guard = 11 * time.Minute

	MarkerTTL = 2 * time.Minute

	// EnqueuedLife is how long an enqueued ticket lives before the guard begins. A
	// peer writes the ticket again in time for as long as its session lives.
	EnqueuedLife = 10 * time.Minute

	// expiryLate is how late the server may drop an expired entry: up to 8 s were
	// measured after a leader's death.
	expiryLate = 10 * time.Second

	// lengthenTolerance is by how much a value may end later than its Outlives without
	// changing life.longest. Markers end at least expiryLate after Outlives, which is more.
	lengthenTolerance = expiryLate / 2

	// expiryNear is how long before the server expires a key only purges are written to it.
	expiryNear = 2 * time.Second

	// garbageTime is how long an entry that means nothing any more is left to the
	// peer that wrote it. After that, any peer purges the entry.
	garbageTime = time.Second
)

// life is when the entries of one key end: the last one, and the earlier ones that it
// superseded.
//
// The server keeps no tombstones (nats-server issue 8505). After an unclean stop
// it reads a superseded entry as current if nothing newer of its key is left. So
// each entry must outlive every earlier value of its key. Entry.Outlives says until
// when, by the leader's clock. If each writer computed that instant itself,
// roundings and delays would add up on a busy key.
type life struct {
	present Instant // when the key's last entry ends
	longest int64   // when the last of all its values ends, in Unix milliseconds by the leader's clock
}

func (l *life) extend(e *entry.Entry, now Instant, age time.Duration) {
	ttl := e.TTL
	if ttl == 0 {
		ttl = 10 * entry.MaxSpan // a configuration
	}
	l.present = now.Add(ttl - age)
	l.longest = max(l.longest, e.Outlives)
	l.lengthen(e, ttl)
}

func (l *life) lengthen(e *entry.Entry, ttl time.Duration) {
	if e.Marker {
		return
	}
	// A value that Outlive has lengthened ends a little later than its Outlives, because
	// of rounding and delay.
	end := e.Time.Add(ttl).UnixMilli()
	if e.Outlives == 0 || end > e.Outlives+lengthenTolerance.Milliseconds() {
		l.longest = max(l.longest, end)
	}
}

// short reports whether a marker may expire before an earlier value of its key would
// have: the leader's clock was set back while the marker was in flight. A peer then
// writes the marker again.
func (l *life) short(e *entry.Entry) bool {
	return e.Marker && e.TTL > 0 && e.Key.Kind != entry.Config && e.Time.Add(e.TTL).UnixMilli() < l.longest
}
