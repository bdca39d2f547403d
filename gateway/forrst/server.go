package forrst

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// storeTimeout bounds the calls of built-in functions if the store hangs. The store
// itself times out earlier.
const storeTimeout = 30 * time.Second

// Call implements ops.Functions.
func (s *Server) Call(ctx, detached context.Context, call *ops.Call) *ops.Reply {
	return s.reply(s.serve(ctx, detached, call))
}

// Refuse implements ops.Functions.
func (s *Server) Refuse(err error) *ops.Reply { return s.reply(failed(nil, transportError(err))) }

// serve answers an envelope. ctx bounds the wait for the lock, and detached the
// function.
func (s *Server) serve(ctx, detached context.Context, from *ops.Call) *response {
	r, wrong := readRequest(from.Envelope.Body)
	if wrong != nil {
		return failed(r.id, wrong)
	}
	trace := from.Trace()
	r.call.RequestID, r.call.Traceparent = trace.RequestID, trace.Parent
	if !s.begin(&s.tasks, &s.calls) {
		return failed(r.id, stopping)
	}
	defer s.tasks.Done()
	defer s.calls.Done()
	function, wrong := s.find(r.call, from)
	if wrong != nil {
		return failed(r.id, wrong)
	}
	if r.lock == nil {
		answer := newResponse(r.id)
		s.invoke(detached, function, r.call, nil, answer)
		return answer
	}
	return s.serveLocked(ctx, detached, r, function, from)
}

func (s *Server) serveLocked(ctx, detached context.Context, r request, function function, from *ops.Call) *response {
	if r.lock.repeatable(from) { // the function runs once at a time, although each call gets the lock
		done, err := s.turns.Take(ctx, r.lock.fullKey(r.call.Function), from.RequestKey)
		if err != nil {
			return failed(r.id, transportError(err))
		}
		defer done()
	}
	lock, refusal := s.acquireLock(ctx, r, from)
	if refusal != nil {
		return refusal
	}
	answer := newResponse(r.id)
	if ran := s.invoke(detached, function, r.call, lock, answer); !ran {
		// The caller has nothing to release, even with auto_release false.
		s.finishLock(detached, lock, true, &lockData{})
		answer.attach(lockData{Key: r.lock.key})
		return answer
	}
	data := lockData{
		Key: r.lock.key, Acquired: true, Owner: lock.Owner, Scope: r.lock.scope,
		ExpiresAt: wire.Timestamp(lock.ExpiresAt), Fence: lock.Fence,
	}
	s.finishLock(detached, lock, r.lock.autoRelease, &data)
	answer.attach(data)
	return answer
}

// runner executes a call. It may panic.
type runner func(ctx context.Context, c Call) outcome

type function struct {
	run          runner
	timeout      time.Duration
	timeoutError *Error // the error of a call that takes longer
	stopError    *Error // the error of a call when the server is closed
}

// find returns the function of a call: a built-in one, one of this process, or a NATS
// service, which may not exist.
func (s *Server) find(c Call, from *ops.Call) (f function, wrong *Error) {
	if own, ok := s.builtins[c.Function]; ok {
		if c.Version != "" && c.Version != builtinVersion {
			return f, versionNotFound(c)
		}
		return function{own.runnerFor(from), storeTimeout, storeUnanswered, stopping}, nil
	}
	if isReserved(c.Function) {
		return f, functionNotFound(c.Function)
	}
	f = function{nil, s.cfg.Timeout, deadlineExceeded, outcomeUnknown}
	if local := s.cfg.Functions.find(c.Function); local != nil {
		f.run = s.inProcess(local)
		return f, nil
	}
	if s.cfg.NATS == nil {
		return f, functionNotFound(c.Function)
	}
	f.run = s.overNATS
	return f, nil
}
