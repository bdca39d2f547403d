package natsapi

import (
	"context"
	"errors"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi/internal/delivery"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func (s *Service) perform(r *request) {
	if (r.op.Grants || r.op == ops.CreateSession) && r.reply == "" {
		return // the client could not learn of a grant or a session, nor end it
	}
	call := &ops.Call{Operation: r.op, Request: r, Arrived: r.arrived}
	name, err := readCall(r, call)
	if err != nil {
		s.refuse(r, err)
		return
	}
	if refusal, denied := s.denies(r, call); denied {
		s.reply(r, s.ops.Deny(refusal))
		return
	}
	r.drop()
	if !r.aim(call) {
		s.refuse(r, wire.ErrBusy)
		return
	}
	if r.isUnheard(call) {
		return
	}
	ctx, waiting := s.requests.begin(s.ctx, name)
	defer waiting.end()
	err = s.ops.Do(ctx, s.ctx, call, func() {
		if r.op.Grants && call.Granted() {
			s.deliverGrant(r, waiting, call)
		} else {
			s.answer(r, call)
		}
	})
	switch {
	case call.Operator != nil && call.Operator.OnlyName && errors.Is(err, kvslots.ErrNoPool):
		s.reply(r, s.ops.Deny(wire.Unauthorized))
	case err != nil:
		s.reply(r, s.ops.RefuseCall(err, call))
	}
}

// denies reports whether a request lacks the token that it needs, and why. Without a token a name is that of a lock or a
// semaphore in use: whether anything else has it is not told.
func (s *Service) denies(r *request, call *ops.Call) (refusal wire.Status, denied bool) {
	needs := call.Needs(&call.Params)
	if needs == wire.AccessNone {
		return refusal, false
	}
	switch access := s.tokens.Access(r.header.Get(wire.AuthorizationHeader)); {
	case access >= needs:
		return refusal, false
	case access == wire.AccessRead:
		return wire.ReadOnly, true
	case call.LimitToName(&call.Params):
		return refusal, false
	}
	return wire.Unauthorized, true
}

// readCall reads a request. name is the name by which it can be cancelled, or "".
func readCall(r *request, call *ops.Call) (name string, err error) {
	from := wire.Source{Body: r.body, Header: r.header}
	if err = call.Route.Read(&from, &call.Params); err != nil || !call.Cancels() {
		return "", err
	}
	if name, err = r.name(); err == nil && call.Grants {
		err = r.readConfirms()
	}
	return name, err
}

// deliverGrant sends a grant. If the client has disconnected, or has cancelled the request,
// deliverGrant takes the grant back at once, for the next in line.
func (s *Service) deliverGrant(r *request, waiting *openRequest, grant *ops.Call) {
	if !waiting.grant(grant) {
		s.ops.Withdraw(s.ctx, grant)
		s.refuse(r, context.Canceled)
		return
	}
	reply := s.ops.Reply(grant)
	message, err := r.message(&reply)
	if err != nil {
		s.ops.TakeBack(s.ctx, grant)
		s.refuse(r, err)
		return
	}
	switch s.sender.Grant(s.ctx, message, r.arrived, grant.Queued, r.confirms) {
	case delivery.Heard:
		s.done(r, &reply)
	case delivery.Unheard:
		s.log.Debug("a borrower was gone when its turn came, or did not confirm")
		s.ops.TakeBack(s.ctx, grant)
	case delivery.Unknown: // the client may have received it, so it must not be lent again
		s.log.Warn("it is not known whether a borrower received its answer; if not, its lease ends by its ttl")
	}
}
