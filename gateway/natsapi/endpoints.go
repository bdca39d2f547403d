package natsapi

import (
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const (
	// Requests that have arrived and not been looked at. The handlers do not
	// block, so that is few; the bounds are for a flood.
	pendingMessages = 16 << 10
	pendingBytes    = 32 << 20
)

// endpoint is one subject of the service.
type endpoint struct {
	subject  string
	room     chan struct{} // bounds how many requests are open
	statusOf wire.Lookup   // the table of errors
	serve    func(r *request)
}

// name is what INFO and STATS call it.
func (e endpoint) name() string { return subjects.Name(e.subject) }

// queue is the group of which one gateway gets each request. A cancellation is
// for all.
func (e endpoint) queue() string {
	if e.subject == subjects.Cancel {
		return ""
	}
	return subjects.Service
}

// endpoints are all, sorted by name.
func (s *Service) endpoints() []endpoint {
	all := []endpoint{{subject: subjects.Cancel}} // served by cancelBorrow
	served := ops.OfPools
	if s.ops.Sessions != nil {
		served = slices.Concat(served, ops.OfSessions, ops.OfResources)
	}
	for _, op := range served {
		room := s.others
		if op.Waits() {
			room = s.borrows
		}
		all = append(all, endpoint{op.Subject, room, op.StatusOf, s.perform(op)})
	}
	if s.calls != nil {
		all = append(all, s.rpcEndpoint())
	}
	slices.SortFunc(all, func(a, b endpoint) int { return strings.Compare(a.subject, b.subject) })
	return all
}

func (s *Service) subscribeEndpoints() error {
	for _, e := range s.listed {
		handler := s.handle(e)
		if e.subject == subjects.Cancel {
			handler = s.cancelBorrow
		}
		if err := s.subscribe(e.subject, e.queue(), handler); err != nil {
			return err
		}
	}
	return nil
}

// subscribe calls the handler with each message to a subject, until drain. An
// empty queue stands for none.
func (s *Service) subscribe(subject, queue string, handler nats.MsgHandler) error {
	sub, err := s.nc.QueueSubscribe(subject, queue, handler)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.subs = append(s.subs, sub)
	s.mu.Unlock()
	return sub.SetPendingLimits(pendingMessages, pendingBytes)
}

// handle runs each request in a goroutine of its own: the handlers of a
// subscription are called one after another, and a request that waits, be it for
// the disk only, would hold up all behind it.
func (s *Service) handle(e endpoint) nats.MsgHandler {
	count := s.counters[e.subject]
	return func(m *nats.Msg) {
		count.received.Add(1)
		r := newRequest(m)
		r.count, r.statusOf, r.isCall = count, e.statusOf, e.subject == subjects.RPC
		if !s.replies.mayGoTo(r.reply) {
			return
		}
		if len(r.body) > wire.MaxBody { // while it is the only one in memory
			s.refuse(r, wire.ErrTooLarge)
			return
		}
		select {
		case e.room <- struct{}{}:
		default:
			s.refuse(r, wire.ErrBusy)
			return
		}
		if !s.begin() {
			<-e.room
			s.refuse(r, wire.ErrDraining)
			return
		}
		count.open.Add(1)
		s.workers.run(func() {
			defer s.tasks.Done()
			defer func() { <-e.room }()
			defer count.open.Add(-1)
			defer s.recoverPanic(r)
			e.serve(r)
		})
	}
}

// begin counts a task, unless the service is closed.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Add(1)
	return true
}
