package stream

import (
	"math/rand/v2"
	"strconv"
	"time"
)

const DefaultMarkerTTL = 2 * time.Minute

type Options struct {
	// Replicas is the number of replicas; 0 means 1.
	Replicas int

	// FirstSequence is the sequence of the first message; 0 stands for the microseconds
	// since 1970, which kvslots uses.
	FirstSequence uint64

	// MarkerTTL is the subject_delete_marker_ttl; 0 means DefaultMarkerTTL.
	MarkerTTL time.Duration

	Traps Traps
}

type Stream struct {
	opts   Options
	random *rand.Rand
	now    time.Time
	clock  time.Duration // the leader's clock minus the simulator's

	exists  bool
	created time.Time
	first   uint64 // the first sequence since the stream was created or purged
	last    uint64
	highest uint64 // maximum of last since the stream was created

	log      recordLog
	current  map[string]uint64 // current sequence of each key
	expiries []expiry          // in their order
	markers  []limitMarker     // under way, in the order of arrival

	leaderless    bool
	noExpiryUntil time.Time // nothing expires before
	consumerEpoch int       // consumers of earlier epochs are lost
	republished   []Stored  // since the last call of Republished
	met           [traps]int
	early         map[string]bool // keys of which a marker expired before its time was over
	revived       map[string]bool // keys of which a restart brought back a message that was superseded
}

// New creates a stream, which keeps the random source. The source may be nil if no trap
// needs it.
func New(o Options, random *rand.Rand, now time.Time) *Stream {
	o.Replicas = max(o.Replicas, 1)
	if o.MarkerTTL <= 0 {
		o.MarkerTTL = DefaultMarkerTTL
	}
	s := &Stream{opts: o, random: random, now: now, early: map[string]bool{}, revived: map[string]bool{}}
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

func (s *Stream) clear() {
	s.log = recordLog{base: s.first}
	s.current = map[string]uint64{}
	s.expiries = nil
}

func (s *Stream) leaderTime() time.Time { return s.now.Add(s.clock) }

func (s *Stream) replicated() bool { return s.opts.Replicas > 1 }

type Info struct {
	Exists  bool
	Created time.Time
	First   uint64 // sequence of the first live message, or the next sequence
	Last    uint64 // last sequence, even if its message was removed
}

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

func (s *Stream) Exists() bool { return s.exists }

func (s *Stream) Get(key string) (Stored, bool) {
	sequence, ok := s.current[key]
	if !ok {
		return Stored{}, false
	}
	return s.log.at(sequence).Stored, true
}

// RevisionAt returns the revision that a key had when the given sequence was the last one,
// 0 for none. It reports false if the stream does not remember that.
func (s *Stream) RevisionAt(key string, last uint64) (revision uint64, known bool) {
	if last < s.log.base {
		return 0, false
	}
	for i := s.log.index(last + 1); i > 0; i-- {
		if r := &s.log.records[i-1]; r.Key == key {
			if !r.stoodAt(last) {
				return 0, !r.compacted
			}
			return r.Sequence, true
		}
	}
	return 0, true
}

// All returns the live messages in the order of their sequences.
func (s *Stream) All() []Stored {
	all := make([]Stored, 0, len(s.current))
	for r := s.log.next(0); r != nil; r = s.log.next(r.Sequence + 1) {
		all = append(all, r.Stored)
	}
	return all
}

// chance returns true with the given probability.
func (s *Stream) chance(rate float64) bool { return rate > 0 && s.random.Float64() < rate }

// upTo draws a duration in [0, d].
func (s *Stream) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.random.Int64N(int64(d) + 1))
}

func formatNumber(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}
