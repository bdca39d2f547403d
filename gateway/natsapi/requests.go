package natsapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// requests are the open requests that a client has named in order to cancel them.
//
// A client may send a cancellation before the grant has reached it, so requests remembers grants for a while. A
// cancellation may also overtake its request, since the two have different subjects, so it remembers those of requests that
// it does not know, too: otherwise a client that gives up at once leaves a slot taken for its ttl.
type requests struct {
	now func() time.Time

	mu      sync.Mutex
	named   map[string][]*openRequest
	granted recent[*ops.Call]
	early   recent[struct{}]
}

type openRequest struct {
	of        *requests
	name      string                  // "" for a request that cannot be cancelled
	cancel    context.CancelCauseFunc // nil without a name
	cancelled bool
}

func newRequests(now func() time.Time) *requests {
	return &requests{
		now: now, named: map[string][]*openRequest{},
		granted: newRecent[*ops.Call](grantedAge, maxGranted), early: newRecent[struct{}](earlyAge, maxEarly),
	}
}

// begin opens a request, which end closes. The context ends when it is cancelled.
func (r *requests) begin(ctx context.Context, name string) (context.Context, *openRequest) {
	w := &openRequest{of: r, name: name}
	if name == "" {
		return ctx, w
	}
	ctx, w.cancel = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, cancelled := r.early.get(name, r.now()); cancelled {
		w.stop()
	}
	r.named[name] = append(r.named[name], w)
	return ctx, w
}

func (w *openRequest) stop() {
	w.cancelled = true // the store may still grant a lease: see grant
	w.cancel(ops.ErrWithdrawn)
}

func (w *openRequest) end() {
	if w.name == "" {
		return
	}
	w.cancel(nil)
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.named[w.name], w); i >= 0 {
		r.named[w.name] = slices.Delete(r.named[w.name], i, i+1)
	}
	if len(r.named[w.name]) == 0 {
		delete(r.named, w.name)
	}
}

// grant records the request's grant. It returns false if the request was cancelled; the
// caller must then take the grant back.
func (w *openRequest) grant(grant *ops.Call) bool {
	if w.name == "" {
		return true
	}
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.cancelled {
		return false
	}
	r.granted.put(w.name, grant, r.now())
	return true
}

// cancel ends the requests with the given name. If a grant was sent already, cancel returns
// it, and the caller must take it back; otherwise it returns nil.
func (r *requests) cancel(name string) *ops.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if grant, sent := r.granted.get(name, r.now()); sent {
		r.granted.remove(name)
		return grant
	}
	open := r.named[name]
	for _, w := range open {
		w.stop()
	}
	if len(open) == 0 {
		r.early.put(name, struct{}{}, r.now())
	}
	return nil
}

// cancelBorrow handles kvslots.cancel, which every gateway receives, and on which at most
// one acts. It sends no answer, since the answer to the request itself reports its end.
func (s *Service) cancelBorrow(m *nats.Msg) {
	s.counters[subjects.Cancel].received.Add(1)
	r := s.newRequest(m)
	name, err := r.name()
	if err != nil || name == "" {
		return
	}
	grant := s.requests.cancel(name)
	if grant == nil || !s.begin() {
		return
	}
	go func() {
		defer s.tasks.Done()
		defer ops.Recover(s.log)
		s.ops.Withdraw(s.ctx, grant)
	}()
}
