package kvslots

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// record is a message for the bucket. How long it has to live is settled when it
// is sent.
type record struct {
	*nats.Msg
	key      entry.Key
	expected uint64
	life     time.Duration // how long it lives by itself; 0 for ever
	marker   bool
}

// write builds the record that puts a value under a key whose last revision is
// the expected one. ttl is how long the value means anything; the key outlives
// it by the guard. 0 means for ever.
func write(key entry.Key, value any, expected uint64, ttl time.Duration) *record {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // our own types: cannot happen
	}
	r := newRecord(key, expected)
	r.Data = data
	if ttl > 0 {
		r.life = ttl + guard
	}
	return r
}

// purge builds the marker that frees a key whose last revision is the expected
// one. For a slot whose lease was granted, ticket names the ticket that it was
// granted for, which is thereby dropped for good.
//
// kv.Delete would leave a marker for ever; kv.Purge would need another round
// trip. So it is written by hand, like every entry.
func purge(key entry.Key, expected, ticket uint64) *record {
	r := newRecord(key, expected)
	r.marker, r.life = true, entry.MarkerTTL
	r.Header.Set(entry.HeaderOperation, "PURGE")
	if ticket != 0 {
		r.Header.Set(entry.HeaderTicket, strconv.FormatUint(ticket, 10))
	}
	return r
}

func newRecord(key entry.Key, expected uint64) *record {
	r := &record{Msg: nats.NewMsg(subjectPrefix + key.String()), key: key, expected: expected}
	r.Header.Set(entry.HeaderExpected, strconv.FormatUint(expected, 10))
	return r
}

// lives settles how long records live: see entry.Outlive.
type lives struct {
	// streamTime is the timestamp of an entry that this peer has applied, not
	// long ago. The next record's will be no earlier.
	streamTime time.Time

	// longest is the longest life of a value that this peer has written, of each
	// kind. What stands under the peer's own presence is apart from what client
	// sessions have: they may live much longer.
	longest map[lifeClass]time.Duration
}

type lifeClass struct {
	kind entry.Kind
	own  bool
}

func classOf(key entry.Key, self entry.Hash) lifeClass {
	return lifeClass{key.Kind, key.Session == self && !self.IsZero()}
}

// settle sets for how long a record lives. w is this peer's view, self its
// presence.
func (l *lives) settle(r *record, w *rules.World, self entry.Hash) {
	now := l.streamTime
	if now.IsZero() {
		now = time.Now() // nothing is loaded yet: the first presence
	}
	revivable := l.revivable(r, w, self, now)
	if class := classOf(r.key, self); !r.marker && r.life > l.longest[class] {
		put(&l.longest, class, r.life)
	}
	life, outlives := entry.Outlive(r.life, r.marker, revivable, now)
	if life > 0 {
		r.Header.Set(entry.HeaderTTL, entry.FormatLife(life))
	}
	if !outlives.IsZero() {
		r.Header.Set(entry.HeaderOutlives, entry.FormatOutlives(outlives))
	}
}

// revivable is until when what the record replaces, or something earlier, may
// come back. Where the key is absent, everything earlier has expired. What the
// view does not hold is either this peer's own value, which the view has yet to
// reach, or the marker of one of its tickets.
func (l *lives) revivable(r *record, w *rules.World, self entry.Hash, now time.Time) time.Time {
	if r.expected == 0 {
		return time.Time{}
	}
	until, known := w.Revivable(r.key, r.expected)
	if own := now.Add(l.longestOf(r.key, self)); !known && own.After(until) {
		return own
	}
	return until
}

// longestOf is the longest life of a value that this peer may have written under
// a key: if not its present presence's, perhaps an earlier one's.
func (l *lives) longestOf(key entry.Key, self entry.Hash) time.Duration {
	class := classOf(key, self)
	if class.own {
		return l.longest[class]
	}
	return max(l.longest[class], l.longest[lifeClass{key.Kind, true}])
}

// markerOf is how long a marker of this peer's own key can be in the bucket.
func (l *lives) markerOf(key entry.Key, self entry.Hash) time.Duration {
	return max(entry.MarkerTTL, l.longestOf(key, self)) + 2*entry.MarkerSlack
}
