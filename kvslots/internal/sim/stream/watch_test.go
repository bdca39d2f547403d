package stream_test

import (
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// realWatch is a consumer of a real server that runs until the test ends.
type realWatch struct {
	mu    sync.Mutex
	found []stream.Stored
}

func startWatch(t testing.TB, r *realStream, from uint64) *realWatch {
	t.Helper()
	w := &realWatch{}
	inbox := r.nc.NewInbox()
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
