//go:build unix

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

// longest returns the longest time without an event that began after begin and was over at end.
func (i *instants) longest(begin, end time.Time) (most time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, _ := slices.BinarySearchFunc(i.times, begin, time.Time.Compare)
	for _, at := range append(slices.Clone(i.times[n:]), end) {
		if at.After(end) {
			at = end
		}
		most = max(most, at.Sub(begin))
		begin = at
	}
	return most
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
