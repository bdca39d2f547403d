package natsapi

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

// perform answers the requests for an operation.
func (s *Service) perform(op *ops.Operation) func(r *request) {
	return func(r *request) {
		if op.Grants && r.reply == "" {
			return // what is granted could never be given back
		}
		call := &ops.Call{Operation: op}
		name, err := readCall(r, call)
		if err != nil {
			s.refuse(r, err)
			return
		}
		r.drop()
		ctx, done := s.requests.begin(s.ctx, name)
		defer done()
		err = s.ops.Do(ctx, s.ctx, call, func() {
			if op.Grants && call.Granted() {
				s.deliverGrant(r, name, call)
			} else {
				s.answer(r, call)
			}
		})
		if err != nil {
			s.refuse(r, err)
		}
	}
}

// readCall reads a request. name is what it can be cancelled by; empty without one.
func readCall(r *request, call *ops.Call) (name string, err error) {
	if err = call.ReadAll(r.body); err != nil || !call.Grants {
		return "", err
	}
	if name, err = r.name(); err != nil {
		return "", err
	}
	return name, r.readConfirms()
}

// deliverGrant sends a grant. When its requester has gone, or has cancelled the request
// meanwhile, no client knows what was granted, so it is taken back at once, for the
// next in line.
func (s *Service) deliverGrant(r *request, name string, grant *ops.Call) {
	if !s.requests.grant(name, grant) {
		s.takeBack(grant)
		s.refuse(r, context.Canceled)
		return
	}
	message, err := r.success(grant)
	if err != nil {
		s.takeBack(grant)
		s.refuse(r, err)
		return
	}
	switch s.send(r, message, grant.Queued) {
	case heard:
		r.count.done(r.arrived)
	case unheard:
		s.log.Debug().Msg("a borrower was gone when its turn came, or did not confirm")
		s.takeBack(grant)
	case unknown: // a requester that heard it holds it, so it must not be lent again
		s.log.Warn().Msg("whether a borrower heard its answer is not known; an unheard lease ends by its ttl")
	}
}

// send publishes a grant. The requester of one that was waited for may have died
// meanwhile, without the server having noticed. Sending first and asking the server
// afterwards is no way out for those that do not confirm: when their reply subject
// has no subscription any more, they may have got the grant and have ended the
// subscription for that, and would lose what they hold.
//
// A requester that dies while it is granted a free slot is not told from one that
// dies as soon as it holds it, so that is not waited for, however busy the machine.
func (s *Service) send(r *request, grant *nats.Msg, queued bool) outcome {
	switch {
	case !queued && time.Since(r.arrived) <= quickGrant:
		return s.deliveries.send(grant)
	case r.confirms:
		return s.confirmations.send(s.ctx, grant)
	}
	s.deliveries.settle()
	return s.deliveries.send(grant)
}

// takeBack takes back what its requester was not told of, or has cancelled.
func (s *Service) takeBack(grant *ops.Call) {
	if err := s.ops.TakeBack(context.WithoutCancel(s.ctx), grant); err != nil {
		s.log.Warn().Err(err).Msg("a lease whose borrower is gone could not be returned; it ends by its ttl")
	}
}
