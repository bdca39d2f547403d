package stream

import (
	"container/heap"
	"time"
)

// expiry is when a message is found to have expired, by the leader's clock.
type expiry struct {
	at       time.Time
	sequence uint64
}

type expiryHeap []expiry

func (h expiryHeap) Len() int { return len(h) }
func (h expiryHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].sequence < h[j].sequence
}
func (h expiryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)   { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// limitMarker is a marker of the server's own on its way into the stream.
type limitMarker struct {
	key string
	at  time.Time // by the simulator's clock
}

// schedule notes when a message will be found to have expired.
func (s *Stream) schedule(r *record) {
	if r.ttl == 0 || r.Header.marker() && !s.opts.Traps.MarkersExpire {
		return
	}
	at := r.Time.Add(r.ttl + s.upTo(s.opts.Traps.ExpiryLate))
	heap.Push(&s.expiries, expiry{at, r.Sequence})
}

// Advance lets the time go on: messages whose TTL is over are replaced by a
// marker of the server's own, and markers whose TTL is over go.
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
			s.expire(heap.Pop(&s.expiries).(expiry))
		}
	}
	if now.After(s.now) {
		s.now = now
	}
}

// NextExpiry is when the stream next changes by itself; the zero time if it does
// not, or not before a leader is elected.
func (s *Stream) NextExpiry() time.Time {
	at, _ := s.nextEvent()
	return at
}

func (s *Stream) nextEvent() (at time.Time, ok bool) {
	if s.leaderless || !s.exists {
		return time.Time{}, false
	}
	for len(s.expiries) > 0 && !s.lives(s.expiries[0].sequence) {
		heap.Pop(&s.expiries)
	}
	if len(s.expiries) > 0 {
		at, ok = s.expiries[0].at.Add(-s.clock), true
		if at.Before(s.quietUntil) {
			at = s.quietUntil
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

// expire is the server's look at a message whose time is over.
func (s *Stream) expire(e expiry) {
	r := s.log.at(e.sequence)
	s.countLateness(r)
	if r.Header.marker() {
		s.met[MarkerExpired]++
		s.remove(r)
		return
	}
	at := s.now.Add(s.upTo(s.opts.Traps.RollupWindow))
	if n := len(s.markers); n > 0 && at.Before(s.markers[n-1].at) {
		at = s.markers[n-1].at // they arrive in the order in which they were sent
	}
	s.markers = append(s.markers, limitMarker{r.Key, at})
	s.log.at(e.sequence).expired = true
}

func (s *Stream) countLateness(r *record) {
	switch over := r.written.Add(r.ttl); {
	case s.now.Before(over):
		s.met[EarlyExpiry]++
	case s.now.After(over) && s.now.Equal(s.quietUntil):
		s.met[LateAfterDeath]++
	case s.now.After(over):
		s.met[LateExpiry]++
	}
}

// arrive stores the server's own marker. It expects nothing and rolls the key
// up: what was written since the look is erased.
func (s *Stream) arrive() {
	key := s.markers[0].key
	s.markers = s.markers[1:]
	if sequence, ok := s.current[key]; ok && !s.log.at(sequence).expired {
		s.met[ErasedAfterAck]++
	}
	ttl := s.opts.MarkerTTL.Truncate(time.Second)
	s.store(key, Header{Reason: "MaxAge", TTL: ttl.String(), Rollup: "sub"}, nil, ttl)
}
