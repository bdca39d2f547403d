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

// requests are the open requests that a client has named in order to cancel them, and those that
// may wait in a line.
//
// A client may send a cancellation before the grant has reached it, so requests remembers
// grants for a while. A cancellation may also overtake its request, since the two have
// different subjects, so requests also remembers cancellations of unknown requests.
type requests struct {
	now func() time.Time

	mu      sync.Mutex
	named   requestLists // by name
	lines   requestLists // by line, in the order of arrival
	early   recent[struct{}]
	granted recent[*ops.Call]
}

type openRequest struct {
	of        *requests
	name      string // "" for a request that cannot be cancelled
	line      string // in which it may wait; "": none
	reply     string
	asked     bool                    // whether its client has gone
	cancel    context.CancelCauseFunc // nil without a name and a line
	cancelled bool
}

// requestLists are open requests in lists, of which none is "".
type requestLists map[string][]*openRequest

func (l requestLists) add(name string, w *openRequest) {
	if name != "" {
		l[name] = append(l[name], w)
	}
}

func (l requestLists) remove(name string, w *openRequest) {
	if i := slices.Index(l[name], w); i >= 0 {
		l[name] = slices.Delete(l[name], i, i+1)
	}
	if len(l[name]) == 0 {
		delete(l, name)
	}
}

func newRequests(now func() time.Time) *requests {
	return &requests{
		now: now, named: requestLists{}, lines: requestLists{},
		early:   newRecent[struct{}](earlyAge, maxEarly, true), // a flood of cancellations displaces none
		granted: newRecent[*ops.Call](grantedAge, maxGranted, false),
	}
}

// begin opens a request, which end closes. The context ends when it is cancelled, or its client is
// found to have gone.
func (r *requests) begin(ctx context.Context, name, line, reply string) (context.Context, *openRequest) {
	w := &openRequest{of: r, name: name, line: line, reply: reply}
	if name == "" && line == "" {
		return ctx, w
	}
	ctx, w.cancel = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, cancelled := r.early.get(name, r.now()); cancelled && name != "" {
		w.stop()
	}
	r.named.add(name, w)
	r.lines.add(line, w)
	return ctx, w
}

func (w *openRequest) stop() {
	w.cancelled = true
	w.cancel(ops.ErrWithdrawn)
}

func (w *openRequest) end() {
	if w.cancel == nil {
		return
	}
	w.cancel(nil)
	r := w.of
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named.remove(w.name, w)
	r.lines.remove(w.line, w)
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
		w.stop() // the store may still grant a lease: see grant
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
