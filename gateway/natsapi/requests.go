package natsapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const (
	// memory bounds how long, and how many, names of requests are remembered
	// that are not being served: cancelled ones that have not come yet, and
	// leases that went out to a requester that may just be giving up.
	memoryTime = 10 * time.Second
	memorySize = 8192
)

// requests are the borrows that have a name, so that they can be cancelled: those
// of pools, and of locks and semaphores.
//
// A cancellation and the borrow's turn may cross on their way, and a
// cancellation may overtake its borrow, since they have different subjects;
// so both are remembered for a while.
type requests struct {
	now func() time.Time

	mu      sync.Mutex
	open    map[string][]*waiter
	early   recent[struct{}] // cancelled, and not seen yet
	granted recent[*ops.Call]
}

// waiter is one open borrow.
type waiter struct{ cancel context.CancelFunc }

func newRequests(now func() time.Time) *requests {
	return &requests{now: now, open: map[string][]*waiter{}}
}

// begin opens a borrow; done closes it. The context ends when it is cancelled.
func (r *requests) begin(ctx context.Context, name string) (_ context.Context, done func()) {
	if name == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, cancelled := r.early.take(name, r.now()); cancelled {
		// Not forgotten: grant asks again.
		r.early.put(name, struct{}{}, r.now())
		cancel()
	}
	r.open[name] = append(r.open[name], w)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		left := slices.DeleteFunc(r.open[name], func(other *waiter) bool { return other == w })
		if r.open[name] = left; len(left) == 0 {
			delete(r.open, name)
		}
	}
}

// grant is called with what a request was granted. It returns false when the
// request has been cancelled, in which case the grant has to be taken back.
func (r *requests) grant(name string, grant *ops.Call) bool {
	if name == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, cancelled := r.early.take(name, r.now()); cancelled {
		return false
	}
	r.granted.put(name, grant, r.now())
	return true
}

// cancel ends the requests of a name. A grant that has gone out already is
// returned, to be taken back: the requester does not want it.
func (r *requests) cancel(name string) (grant *ops.Call, out bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if grant, out = r.granted.take(name, r.now()); out {
		return grant, true
	}
	for _, w := range r.open[name] {
		w.cancel()
	}
	// A lease may be on its way to the open one all the same.
	r.early.put(name, struct{}{}, r.now())
	return nil, false
}

// cancelBorrow takes kvslots.cancel. All gateways do, and one of them may serve
// the borrow. It has no answer, whatever the reply subject: the borrow's own
// answer says that it has ended.
func (s *Service) cancelBorrow(m *nats.Msg) {
	s.counters[subjects.Cancel].received.Add(1)
	r := newRequest(m)
	name, err := r.name()
	if err != nil || name == "" {
		return
	}
	grant, out := s.requests.cancel(name)
	if !out || !s.begin() {
		return
	}
	go func() {
		defer s.tasks.Done()
		s.takeBack(grant)
	}()
}

// recent remembers a value for each name for a while. The zero value is empty.
type recent[V any] struct {
	values map[string]remembered[V]
	order  []string // oldest first; may name what was taken meanwhile
}

type remembered[V any] struct {
	value V
	at    time.Time
}

func (r *recent[V]) put(name string, value V, now time.Time) {
	for len(r.order) > 0 {
		oldest, known := r.values[r.order[0]]
		if known && len(r.order) < memorySize && now.Sub(oldest.at) < memoryTime {
			break
		}
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
	if r.values == nil {
		r.values = map[string]remembered[V]{}
	}
	r.values[name] = remembered[V]{value, now}
	r.order = append(r.order, name)
}

func (r *recent[V]) take(name string, now time.Time) (value V, ok bool) {
	found, known := r.values[name]
	delete(r.values, name)
	if !known || now.Sub(found.at) >= memoryTime {
		return value, false
	}
	return found.value, true
}
