package natsapi

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// perform answers the requests for an operation.
func (s *Service) perform(op *ops.Operation) func(r *request) {
	return func(r *request) {
		if (op.Grants || op == ops.CreateSession) && r.reply == "" {
			return // the client could not learn of a grant or a session, nor end it
		}
		call := &ops.Call{Operation: op, Arrived: r.arrived, Origins: s.originsOf(r.reply)}
		name, err := readCall(r, call)
		if err != nil {
			s.refuse(r, err)
			return
		}
		r.drop()
		if !r.aim(call) {
			s.refuse(r, wire.ErrBusy)
			return
		}
		ctx, waiting := s.requests.begin(r.place.Context, name)
		defer waiting.end()
		err = s.ops.Do(ctx, s.ctx, call, func() {
			if op.Grants && call.Granted() {
				s.deliverGrant(r, waiting, call)
			} else {
				s.answer(r, call)
			}
		})
		if err != nil && context.Cause(r.place.Context) == wire.ErrBusy {
			err = wire.ErrBusy // the client's connection is closed
		}
		if err != nil {
			s.refuse(r, err)
		}
	}
}

// readCall reads a request. name is the name by which it can be cancelled, or "".
func readCall(r *request, call *ops.Call) (name string, err error) {
	if err = call.Route.Read(r, &call.Params); err != nil || !call.Grants {
		return "", err
	}
	if name, err = r.name(); err != nil {
		return "", err
	}
	return name, r.readConfirms()
}

// deliverGrant sends a grant. If the client has disconnected, or has cancelled the request,
// deliverGrant takes the grant back at once, for the next in line.
func (s *Service) deliverGrant(r *request, waiting *waiter, grant *ops.Call) {
	if !waiting.grant(grant) {
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
		s.done(r, http.StatusOK)
	case unheard:
		s.log.Debug().Msg("a borrower was gone when its turn came, or did not confirm")
		s.takeBack(grant)
	case unknown: // the client may have received it, so it must not be lent again
		s.log.Warn().Msg("it is not known whether a borrower received its answer; if not, its lease ends by its ttl")
	}
}

// send publishes a grant. If the request waited, its client may have died without the
// server having noticed, so send first waits for that, unless the client confirms. Sending
// the grant first and asking the server afterwards would not work: a client may end its
// subscription because it has received the grant, and would then lose what it holds.
//
// If the request did not wait, send does not wait either: a client that dies at that moment
// could as well have died just after it received the grant.
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

// takeBack takes back a grant that the client did not receive, or has cancelled.
func (s *Service) takeBack(grant *ops.Call) {
	if err := s.ops.TakeBack(context.WithoutCancel(s.ctx), grant); err != nil {
		s.log.Warn().Err(err).Msg("a lease whose borrower is gone could not be returned; it ends by its ttl")
	}
}
