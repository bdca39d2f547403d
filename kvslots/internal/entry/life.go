package entry

import (
	"strconv"
	"time"
)

// How long records live in the bucket.
//
// A server that was stopped uncleanly reads superseded records from its blocks
// as current when nothing newer of their key is left: it writes no tombstones
// for them (nats-server issue 8505). So whatever frees a key has to outlive
// every earlier record of that key:
//
//   - A value lives at least as long as each earlier value of its key may come
//     back. So when it expires by itself, none of them is left, and the server's
//     own marker (SubjectDeleteMarkerTTL) need not know of them.
//   - A marker lives MarkerSlack longer than that, and at least MarkerTTL.
//   - What has no TTL is followed by an entry or a marker of DeletedLife.
//
// Earlier markers need not be outlived: one that comes back frees a free key.
//
// Every peer can tell from a key's current record alone until when an earlier one
// may come back: see Entry.Revivable. The compare-and-swap on that record makes
// certain that it is the current one.
const (
	// MarkerTTL is the shortest life of a marker. A view that missed more of the
	// stream than that may have missed a marker. It is also the life of the
	// server's own markers.
	MarkerTTL = 2 * time.Minute

	// MarkerSlack is how much longer a marker lives than what it replaces.
	// Expiry comes up to 250 ms late, seconds late at a leader's death, and
	// another leader's clock may differ.
	MarkerSlack = 10 * time.Second

	// DeletedLife is how long the deletion of what has no TTL is kept.
	DeletedLife = 30 * 24 * time.Hour
)

// endless is the end of a record without a TTL.
var endless = time.Unix(1<<40, 0)

// Expires is when the server drops the record.
func (e Entry) Expires() time.Time {
	if e.Life == 0 {
		return endless
	}
	return e.Time.Add(e.Life)
}

// Revivable is until when this record, or an earlier one of its key, may be read
// as a value after an unclean stop of the server; the zero time where none may.
//
// A value whose life was raised to outlive an earlier one ends at that one's end,
// but for the rounding to whole seconds and the writer's lag. Those do not count
// here: they would add up over the writes of a busy key, and markers have more
// slack than that.
func (e Entry) Revivable() time.Time {
	switch end := e.Expires(); {
	case e.Marker, end.Before(e.Outlives.Add(MarkerSlack / 2)):
		return e.Outlives
	default:
		return end
	}
}

// Outlive is the life of a record that would live for that long by itself (0 for
// ever), when an earlier record of its key may come back until revivable. now is
// a lower bound of the time at which the stream will take the record. outlives is
// what the record has to say in HeaderOutlives; it is zero when the record's own
// life is long enough.
func Outlive(life time.Duration, marker bool, revivable, now time.Time) (raised time.Duration, outlives time.Time) {
	if !revivable.Before(endless) {
		revivable = now.Add(DeletedLife)
	}
	needed := revivable.Sub(now)
	if marker {
		needed += MarkerSlack
	}
	if life == 0 || needed <= life {
		return life, time.Time{}
	}
	return needed, revivable
}

// FormatOutlives is the value of HeaderOutlives: milliseconds since 1970 by the
// clock of the stream's leader.
func FormatOutlives(t time.Time) string {
	return strconv.FormatInt(t.Add(time.Millisecond-1).UnixMilli(), 10)
}

func parseOutlives(text string) time.Time {
	if ms := parseRevision(text); ms != 0 {
		return time.UnixMilli(int64(ms))
	}
	return time.Time{}
}

// FormatLife is the value of HeaderTTL. It rounds up: NATS cuts a TTL down to
// whole seconds.
func FormatLife(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
}

// parseLife reads a TTL as the server does (ADR-43); 0 is for ever.
func parseLife(text string) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d.Truncate(time.Second)
	}
	if n := parseRevision(text); n <= uint64(1<<62/time.Second) {
		return time.Duration(n) * time.Second
	}
	return 0
}
