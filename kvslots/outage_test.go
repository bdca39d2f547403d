package kvslots

import (
	"slices"
	"sync"
	"time"
)

// instants are the times of one kind of events, in order.
type instants struct {
	mu    sync.Mutex
	times []time.Time
}

func (i *instants) add() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.times = append(i.times, time.Now())
}

// span is a time without events.
type span struct{ begin, end time.Time }

func (s span) length() time.Duration { return s.end.Sub(s.begin) }

// gaps returns the times without events that end within the given time, or last until its end,
// and are at least as long as least.
func (i *instants) gaps(begin, end time.Time, least time.Duration) (found []span) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, _ := slices.BinarySearchFunc(i.times, begin, time.Time.Compare)
	last := begin
	if n > 0 {
		last = i.times[n-1]
	}
	for _, at := range append(slices.Clone(i.times[n:]), end) {
		if at.After(end) {
			at = end
		}
		if at.Sub(last) >= least {
			found = append(found, span{last, at})
		}
		last = at
		if !at.Before(end) {
			break
		}
	}
	return found
}

// after returns when the first event came after a time; not ok if none has come.
func (i *instants) after(t time.Time) (at time.Time, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, _ := slices.BinarySearchFunc(i.times, t, time.Time.Compare)
	if n == len(i.times) {
		return t, false
	}
	return i.times[n], true
}

func longest(spans []span) (most time.Duration) {
	for _, s := range spans {
		most = max(most, s.length())
	}
	return most
}

// behind returns the longest time during which a store granted nothing although NATS
// answered: a time without grants, less the times without answers of NATS in it.
func behind(store, nats []span) (most time.Duration) {
	for _, s := range store {
		left := s.length()
		for _, n := range nats {
			left -= max(0, earlier(s.end, n.end).Sub(later(s.begin, n.begin)))
		}
		most = max(most, left)
	}
	return most
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
