package natsapi

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/gateway/internal/wire"
)

const (
	// carryOutTimeout bounds what is done whether or not the requester stays
	// to hear of it.
	carryOutTimeout = 30 * time.Second

	// Requests that have arrived and not been looked at. The handlers do not
	// block, so that is few; the bounds are for a flood.
	pendingMessages = 16 << 10
	pendingBytes    = 32 << 20
)

// operation answers a request.
type operation func(ctx context.Context, r *request) (any, error)

func (s *Service) addEndpoints() error {
	group := s.micro.AddGroup(Name)
	add := func(name string, handler micro.HandlerFunc, opts ...micro.EndpointOpt) error {
		opts = append(opts, micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
		return group.AddEndpoint(name, handler, opts...)
	}
	for name, op := range map[string]operation{
		"register": s.register,
		"inspect":  s.inspect,
		"delete":   s.remove,
		"return":   s.giveBack,
		"renew":    s.renew,
	} {
		if err := add(name, s.handle(name, s.others, s.carryOut(op))); err != nil {
			return err
		}
	}
	if err := add("borrow", s.handle("borrow", s.borrows, s.borrow)); err != nil {
		return err
	}
	return add("cancel", s.cancelBorrow, micro.WithEndpointQueueGroupDisabled())
}

// carryOut is for what is either quick or given up.
func (s *Service) carryOut(op operation) func(r *request) {
	return func(r *request) {
		ctx, cancel := context.WithTimeout(s.ctx, carryOutTimeout)
		defer cancel()
		answer, err := op(ctx, r)
		s.answer(r, answer, err)
	}
}

// handle runs each request in a goroutine of its own: micro calls the handlers
// of a subscription one after another, and a request that waits, be it for the
// disk only, would hold up all behind it.
func (s *Service) handle(name string, room chan struct{}, serve func(r *request)) micro.HandlerFunc {
	count := s.counters[name]
	return func(m micro.Request) {
		r := newRequest(m, count)
		if !r.trustworthy() {
			return
		}
		if len(r.body) > wire.MaxBody { // while it is the only one in memory
			s.answer(r, nil, wire.ErrTooLarge)
			return
		}
		select {
		case room <- struct{}{}:
		default:
			s.answer(r, nil, wire.ErrBusy)
			return
		}
		if !s.begin() {
			<-room
			s.answer(r, nil, wire.ErrDraining)
			return
		}
		count.open.Add(1)
		go func() {
			defer s.tasks.Done()
			defer func() { <-room }()
			defer count.open.Add(-1)
			defer s.recoverPanic(r)
			serve(r)
		}()
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
