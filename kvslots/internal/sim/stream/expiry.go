package stream

import (
	"cmp"
	"slices"
	"time"
)

// expiry is the time at which the server finds a message expired, by the leader's
// clock.
type expiry struct {
	at       time.Time
	sequence uint64
}

func (e expiry) compare(o expiry) int {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.sequence, o.sequence))
}

type limitMarker struct {
	key string
	at  time.Time // by the simulator's clock
}

func (s *Stream) schedule(r *record) {
	if r.ttl == 0 || r.Header.marker() && !s.opts.Traps.MarkersExpire {
		return
	}
	at := r.Time.Add(r.ttl + s.upTo(s.opts.Traps.ExpiryLate))
	e := expiry{at, r.Sequence}
	i, _ := slices.BinarySearchFunc(s.expiries, e, expiry.compare)
	s.expiries = slices.Insert(s.expiries, i, e)
}

// Advance moves the time forward. It replaces expired messages by markers of the
// server, and removes expired markers.
func (s *Stream) Advance(now time.Time) {
	for {
		at, ok := s.nextEvent()
		if !ok || at.After(now) {
			break
		}
		if at.After(s.now) {
			s.now = at
		}
		if len(s.markers) > 0 && !s.markers[0].at.After(s.now) {
			s.arrive()
		} else {
			next := s.expiries[0]
			s.expiries = s.expiries[1:]
			s.expire(next)
		}
	}
	if now.After(s.now) {
		s.now = now
	}
}

// NextExpiry returns when the stream next changes without a call. It returns the zero
// time if there is no such time, or if the stream has no leader.
func (s *Stream) NextExpiry() time.Time {
	at, _ := s.nextEvent()
	return at
}

func (s *Stream) nextEvent() (at time.Time, ok bool) {
	if s.leaderless || !s.exists {
		return time.Time{}, false
	}
	for len(s.expiries) > 0 && !s.lives(s.expiries[0].sequence) {
		s.expiries = s.expiries[1:]
	}
	if len(s.expiries) > 0 {
		at, ok = s.expiries[0].at.Add(-s.clock), true
		if at.Before(s.noExpiryUntil) {
			at = s.noExpiryUntil
		}
	}
	if len(s.markers) > 0 && (!ok || !s.markers[0].at.After(at)) {
		at, ok = s.markers[0].at, true
	}
	if ok && at.Before(s.now) {
		at = s.now
	}
	return at, ok
}

func (s *Stream) lives(sequence uint64) bool {
	return sequence >= s.log.base && sequence <= s.last && s.log.at(sequence).live
}

// expire handles an expired message: a marker is removed, any other message gets one.
func (s *Stream) expire(e expiry) {
	r := s.log.at(e.sequence)
	s.countLateness(r)
	if r.Header.marker() {
		s.met[MarkerExpired]++
		if s.now.Before(r.written.Add(r.ttl)) {
			s.early[r.Key] = true
		}
		s.remove(r)
		return
	}
	at := s.now.Add(s.upTo(s.opts.Traps.RollupWindow))
	if n := len(s.markers); n > 0 && at.Before(s.markers[n-1].at) {
		at = s.markers[n-1].at // markers arrive in the order in which they were sent
	}
	s.markers = append(s.markers, limitMarker{r.Key, at})
	s.log.at(e.sequence).expired = true
}

func (s *Stream) countLateness(r *record) {
	switch over := r.written.Add(r.ttl); {
	case s.now.Before(over):
		s.met[EarlyExpiry]++
	case s.now.After(over) && s.now.Equal(s.noExpiryUntil):
		s.met[LateAfterDeath]++
	case s.now.After(over):
		s.met[LateExpiry]++
	}
}

// arrive stores a marker of the server. The marker has no expected revision and rolls
// the key up, so that it erases a write that was acknowledged since the expiry.
func (s *Stream) arrive() {
	key := s.markers[0].key
	s.markers = s.markers[1:]
	if sequence, ok := s.current[key]; ok && !s.log.at(sequence).expired {
		s.met[ErasedAfterAck]++
	}
	ttl := s.opts.MarkerTTL.Truncate(time.Second)
	s.store(key, Header{Reason: "MaxAge", TTL: ttl.String(), Rollup: "sub"}, nil, ttl)
}
