package natsapi

import (
	"runtime"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// The bounds of requests to one subject that have arrived and have not been handled
	// yet. Handlers do not block, so there are few of them, except in a flood. The library
	// drops further ones.
	pendingMessages = 16 << 10
	pendingBytes    = 4 << 20

	// floodMessages is how many of them are a flood. They are answered 503, which takes
	// less time than to serve them.
	floodMessages = pendingMessages / 4
)

type endpoint struct {
	subject string
	room    *room
	op      *ops.Operation // nil for cancellations, which cancelBorrow serves
}

func (e endpoint) name() string { return subjects.Name(e.subject) }

// queue returns the queue group, in which one gateway receives each request. All gateways
// receive a cancellation.
func (e endpoint) queue() string {
	if e.op == nil {
		return ""
	}
	return subjects.Service
}

func (s *Service) endpoints() []endpoint {
	all := []endpoint{{subject: subjects.Cancel}}
	add := func(waiting, others *room, operations ...*ops.Operation) {
		for _, op := range operations {
			in := others
			if op.Waits() {
				in = waiting
			}
			all = append(all, endpoint{op.Subject, in, op})
		}
	}
	add(s.borrows, s.others, ops.OfPools...)
	add(nil, s.others, ops.OfOperators...)
	if s.ops.Sessions != nil {
		add(s.locks, s.others, slices.Concat(ops.OfSessions, ops.OfResources)...)
	}
	if s.ops.Functions != nil {
		add(s.waitingCalls, nil, ops.CallFunction)
	}
	slices.SortFunc(all, func(a, b endpoint) int { return strings.Compare(a.subject, b.subject) })
	return all
}

func (s *Service) subscribeEndpoints() error {
	for _, e := range s.listed {
		handler := s.handle(e)
		if e.op == nil {
			handler = s.cancelBorrow
		}
		if err := s.subscribe(e.subject, e.queue(), handler); err != nil {
			return err
		}
	}
	return nil
}

// subscribe calls the handler with each message to a subject, until drain. An empty queue
// means no queue group.
func (s *Service) subscribe(subject, queue string, handler nats.MsgHandler) error {
	sub, err := s.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		defer ops.Recover(s.log)
		handler(m)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.subs = append(s.subs, sub)
	s.mu.Unlock()
	return sub.SetPendingLimits(pendingMessages, pendingBytes)
}

// handle serves each request in another goroutine. A subscription calls its handler with
// one message after the other, and a request that waits, if only for the disk, would
// delay all that follow.
func (s *Service) handle(e endpoint) nats.MsgHandler {
	count := s.counters[e.subject]
	return func(m *nats.Msg) {
		count.received.Add(1)
		r := s.newRequest(m)
		r.count, r.op = count, e.op
		if !s.sender.MayAnswer(r.reply) {
			return
		}
		r.trace = traceOf(m.Header)
		if len(r.body) > wire.MaxBody { // checked here, where only one such body at a time is in memory
			s.refuse(r, wire.ErrTooLarge)
			return
		}
		if !s.begin() {
			s.refuse(r, wire.ErrDraining)
			return
		}
		waiting, _, _ := m.Sub.Pending()
		if waiting > floodMessages || !r.enter(e.room) {
			s.tasks.Done()
			s.refuse(r, wire.ErrBusy)
			return
		}
		count.open.Add(1)
		go func() {
			growStack()
			defer s.tasks.Done()
			defer count.open.Add(-1)
			defer s.recoverPanic(r)
			defer r.place.leave()
			s.perform(r)
		}()
	}
}

// growStack grows the stack of a new goroutine at once to the 16 KiB that requests take. It would grow in three
// steps otherwise, with more frames to copy each time, which took a twentieth of a request's processor time.
//
//go:noinline
func growStack() {
	var frame [12 << 10]byte
	runtime.KeepAlive(&frame)
}

func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Add(1)
	return true
}
