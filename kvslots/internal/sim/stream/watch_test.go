package stream_test

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// realWatch is a consumer of a real server that runs until the test ends.
type realWatch struct {
	of    *realStream
	inbox string
	mu    sync.Mutex
	found []stream.Stored
}

func startWatch(t testing.TB, r *realStream, from uint64) *realWatch {
	t.Helper()
	inbox := r.nc.NewInbox()
	w := &realWatch{of: r, inbox: inbox}
	if _, err := r.nc.Subscribe(inbox, func(m *nats.Msg) {
		stored, n := r.delivery(m)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.found = append(w.found, stored); int(n) != len(w.found) {
			t.Errorf("consumer sequence %d came as number %d", n, len(w.found))
		}
	}); err != nil {
		t.Fatal(err)
	}
	r.consumer(from, inbox)
	return w
}

// after returns the delivered messages after a sequence.
func (w *realWatch) after(sequence uint64) (found []stream.Stored) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.found {
		if m.Sequence > sequence {
			found = append(found, m)
		}
	}
	return found
}

// has reports whether as many messages were delivered as came after one sequence up to
// another.
func (w *realWatch) has(after, last uint64) bool { return len(w.after(after)) >= int(last-after) }

// caughtUp reports whether the server has delivered all that it will deliver of what is
// written. It delivers no message that has expired or was overwritten before.
func (w *realWatch) caughtUp() bool {
	c, err := w.of.stream.PushConsumer(w.of.t.Context(), consumerOf(w.inbox))
	if err != nil {
		w.of.t.Error(err)
		return true
	}
	i := c.CachedInfo()
	return i.NumPending == 0 && int(i.Delivered.Consumer) == len(w.after(0))
}
