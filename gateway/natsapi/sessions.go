package natsapi

import (
	"context"

	"github.com/kvslots/kvslots/gateway/internal/locking"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// sessionEndpoints are kvslots.session.create, .ping and .delete, and
// kvslots.lock.acquire and so on. Any of the latter may wait for another of its
// session, so they share the room of the borrows: that of the others is for what
// waits for nobody.
func (s *Service) sessionEndpoints() []endpoint {
	all := []endpoint{
		{subjects.SessionCreate, s.others, wire.CodeOf, s.carryOut(s.createSession)},
		{subjects.SessionPing, s.others, wire.CodeOf, s.carryOut(s.pingSession)},
		{subjects.SessionDelete, s.others, wire.CodeOf, s.carryOut(s.endSession)},
	}
	for word, kind := range locking.Kinds {
		for _, op := range locking.Operations {
			all = append(all, endpoint{subjects.Of(word, op.Name), s.borrows, wire.CodeOf, s.call(kind, op)})
		}
	}
	return all
}

// createSession answers kvslots.session.create. Where clients of NATS come from is
// not known, so no cap counts them by origin.
func (s *Service) createSession(ctx context.Context, r *request) (any, error) {
	body, err := wire.ParseStrict(r.body)
	if err != nil {
		return nil, err
	}
	if err := body.Empty(); err != nil {
		return nil, err
	}
	return s.desk.Create(ctx, "")
}

// pingSession answers kvslots.session.ping.
func (s *Service) pingSession(ctx context.Context, r *request) (any, error) {
	session, err := onlySession(r)
	if err != nil {
		return nil, err
	}
	return wire.Nothing{}, s.desk.Ping(ctx, session)
}

// endSession answers kvslots.session.delete.
func (s *Service) endSession(ctx context.Context, r *request) (any, error) {
	session, err := onlySession(r)
	if err != nil {
		return nil, err
	}
	return wire.Nothing{}, s.desk.End(ctx, session)
}

// onlySession reads {"session"}.
func onlySession(r *request) (string, error) {
	body, err := wire.ParseStrict(r.body)
	if err != nil {
		return "", err
	}
	session, err := body.Session()
	if err != nil {
		return "", err
	}
	return session, body.Empty()
}

// call answers kvslots.lock.acquire and the like (README.md,
// "Subjects").
func (s *Service) call(kind kvslots.Kind, op locking.Operation) func(r *request) {
	return func(r *request) {
		if op.Lends && r.reply == "" {
			return // nobody could ever release it
		}
		call, name, err := s.readCall(r, kind, op)
		if err != nil {
			s.answer(r, nil, err)
			return
		}
		r.drop()
		ctx, done := s.requests.begin(s.ctx, name)
		defer done()
		err = s.desk.Do(ctx, s.ctx, call, func(outcome locking.Outcome) { s.handOutcome(r, name, call, outcome) })
		if err != nil {
			s.answer(r, nil, err)
		}
	}
}

// readCall reads {"session", "key"} and what the operation takes; name is what
// the call can be cancelled by.
func (s *Service) readCall(r *request, kind kvslots.Kind, op locking.Operation) (call locking.Call, name string, err error) {
	body, err := wire.ParseStrict(r.body)
	if err != nil {
		return call, "", err
	}
	session, err := body.Session()
	if err != nil {
		return call, "", err
	}
	key, err := body.Key()
	if err != nil {
		return call, "", err
	}
	if call, err = s.desk.NewCall(op, kind, session, key, body); err != nil || !op.Lends {
		return call, "", err
	}
	if err := r.readConfirms(); err != nil {
		return call, "", err
	}
	name, err = r.name()
	return call, name, err
}

// held is a lock, or a slot of a semaphore, that was handed out.
type held struct {
	desk  *locking.Desk
	call  locking.Call
	grant *kvslots.Grant
}

func (h held) takeBack(ctx context.Context) error { return h.desk.TakeBack(ctx, h.call, h.grant) }

func (s *Service) handOutcome(r *request, name string, call locking.Call, outcome locking.Outcome) {
	switch {
	case outcome.Grant != nil:
		r.queued = outcome.Queued
		s.hand(r, name, held{s.desk, call, outcome.Grant}, outcome.Answer, "")
	case outcome.Answer == nil:
		s.answer(r, wire.Nothing{}, nil)
	default:
		s.answer(r, outcome.Answer, nil)
	}
}
