package bench

import (
	"sync"
	"time"
)

// window decides when measuring begins and ends. The warm-up lasts for at least a fifth
// of d and one operation per client: clients that start together first come in waves.
// Measuring lasts for at least d and three operations per client: operations that end
// together, as in a group commit, must not distort the rate. With a slow server warm-up
// and measuring last for at most 5 d each. Measuring begins and ends with the end of an
// operation, so that it includes no partial operation.
type window struct {
	clients int
	d       time.Duration
	started time.Time

	mu           sync.Mutex
	warm         int // operations that ended in the warm-up
	counted      int
	begins, ends time.Time // zero before measuring begins and ends
}

func newWindow(clients int, d time.Duration) *window {
	return &window{clients: clients, d: d, started: time.Now()}
}

// open reports whether a client should begin another operation.
func (w *window) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends.IsZero()
}

// succeeded records that an operation has succeeded at the time now. It reports whether
// the operation is counted.
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

// failed records that an operation has failed at the time now. It closes the window if
// no operation has succeeded within d, or after 10 d.
func (w *window) failed(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := now.Sub(w.started)
	if w.ends.IsZero() && (passed >= w.d && w.warm == 0 || passed >= 10*w.d) {
		w.ends = now
	}
}

// elapsed returns the duration of measuring. It must be called after all operations
// have ended.
func (w *window) elapsed() time.Duration {
	switch {
	case w.begins.IsZero():
		return 0
	case w.ends.IsZero(): // interrupted
		return time.Since(w.begins)
	}
	return w.ends.Sub(w.begins)
}
