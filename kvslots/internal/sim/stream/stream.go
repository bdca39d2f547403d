package stream

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// DefaultMarkerTTL is how long the server's own markers stay where Options says
// nothing.
const DefaultMarkerTTL = 2 * time.Minute

// Options says which stream to model.
type Options struct {
	// Replicas is the number of servers that keep the stream; 0 is 1.
	Replicas int

	// FirstSequence is the sequence number of the first message; 0 stands for
	// the microseconds since 1970, as kvslots creates it.
	FirstSequence uint64

	// MarkerTTL is the subject_delete_marker_ttl; 0 is DefaultMarkerTTL.
	MarkerTTL time.Duration

	Traps Traps
}

// Stream is one stream with its messages.
type Stream struct {
	opts   Options
	random *rand.Rand
	now    time.Time
	clock  time.Duration // the leader's clock is ahead by that much

	exists  bool
	created time.Time
	first   uint64 // the sequence that the stream was created or purged to
	last    uint64
	highest uint64 // that last ever was, in this stream

	log      recordLog
	current  map[string]uint64 // key -> the sequence that stands
	expiries expiryHeap
	markers  []limitMarker // under way, the first to arrive first

	leaderless bool
	quietUntil time.Time // nothing expires until then
	epoch      int       // consumers of an earlier one are lost
	met        [traps]int
}

// New creates a stream at a time. The source of chance is the stream's from then
// on; it may be nil where no trap needs one.
func New(o Options, random *rand.Rand, now time.Time) *Stream {
	o.Replicas = max(o.Replicas, 1)
	if o.MarkerTTL <= 0 {
		o.MarkerTTL = DefaultMarkerTTL
	}
	s := &Stream{opts: o, random: random, now: now}
	s.create(o.FirstSequence)
	return s
}

func (s *Stream) create(first uint64) {
	if first == 0 {
		first = uint64(s.leaderTime().UnixMicro())
	}
	s.exists, s.created = true, s.leaderTime()
	s.first, s.last, s.highest = first, first-1, first-1
	s.clear()
}

// clear forgets all messages.
func (s *Stream) clear() {
	s.log = recordLog{base: s.first}
	s.current = map[string]uint64{}
	s.expiries = nil
}

// leaderTime is what the leader's clock shows.
func (s *Stream) leaderTime() time.Time { return s.now.Add(s.clock) }

func (s *Stream) replicated() bool { return s.opts.Replicas > 1 }

// Info is what the stream says of itself.
type Info struct {
	Exists  bool
	Created time.Time
	First   uint64 // of the messages that stand; the next sequence if none does
	Last    uint64 // the highest sequence, whether its message stands or not
}

// Clock is the leader's clock.
func (s *Stream) Clock(now time.Time) time.Time { return now.Add(s.clock) }

// Info returns what the stream says of itself.
func (s *Stream) Info() Info {
	if !s.exists {
		return Info{}
	}
	i := Info{Exists: true, Created: s.created, First: s.last + 1, Last: s.last}
	if r := s.log.next(s.first); r != nil {
		i.First = r.Sequence
	}
	return i
}

// Exists reports whether there is a stream.
func (s *Stream) Exists() bool { return s.exists }

// Len returns the number of messages that stand, markers included.
func (s *Stream) Len() int { return len(s.current) }

// Get returns the message that stands under a key.
func (s *Stream) Get(key string) (Stored, bool) {
	sequence, ok := s.current[key]
	if !ok {
		return Stored{}, false
	}
	return s.log.at(sequence).Stored, true
}

// All returns the messages that stand, in the order of their sequences.
func (s *Stream) All() []Stored {
	all := make([]Stored, 0, len(s.current))
	for r := s.log.next(0); r != nil; r = s.log.next(r.Sequence + 1) {
		all = append(all, r.Stored)
	}
	return all
}

// chance reports true at a rate from 0 to 1.
func (s *Stream) chance(rate float64) bool { return rate > 0 && s.random.Float64() < rate }

// upTo draws a duration from 0 to d.
func (s *Stream) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.random.Int64N(int64(d) + 1))
}

func number(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}
