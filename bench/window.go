package bench

import (
	"sync"
	"time"
)

// window decides when measuring begins and ends. The warm-up lasts for a fifth of
// d, and until each client has had the time for one operation: clients that have
// begun together come in waves at first. Measuring lasts for d, and until each
// client has had the time for three: operations that end together, as those of a
// group commit do, must not make much of a difference. Servers that are too slow
// for that are measured after 5 d of warm-up, and for 5 d. Measuring begins and
// ends with the end of an operation, so the rate has no part of one.
type window struct {
	clients int
	d       time.Duration
	started time.Time

	mu           sync.Mutex
	warm         int // operations that ended in the warm-up
	counted      int
	begins, ends time.Time // zero until they are known
}

func newWindow(clients int, d time.Duration) *window {
	return &window{clients: clients, d: d, started: time.Now()}
}

// open reports whether another operation is to begin.
func (w *window) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends.IsZero()
}

// succeeded reports whether an operation that has ended at the time now is
// counted.
func (w *window) succeeded(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.begins.IsZero():
		w.warm++
		if passed := now.Sub(w.started); passed >= w.d/5 && w.warm >= w.clients || passed >= 5*w.d {
			w.begins = now
		}
		return false
	case !w.ends.IsZero():
		return false
	}
	w.counted++
	if passed := now.Sub(w.begins); passed >= w.d && w.counted >= 3*w.clients || passed >= 5*w.d {
		w.ends = now
	}
	return true
}

// failed ends a measurement of which nothing comes.
func (w *window) failed(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := now.Sub(w.started)
	if w.ends.IsZero() && (passed >= w.d && w.warm == 0 || passed >= 10*w.d) {
		w.ends = now
	}
}

// elapsed is how long it was measured; it is called when all operations have
// ended.
func (w *window) elapsed() time.Duration {
	switch {
	case w.begins.IsZero():
		return 0
	case w.ends.IsZero(): // it was interrupted
		return time.Since(w.begins)
	}
	return w.ends.Sub(w.begins)
}
