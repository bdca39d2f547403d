package forrst

import (
	"context"
	"encoding/json"
	"time"
)

// storeTimeout bounds the calls of the server's own functions. It is there for a
// store that hangs: the store itself gives up before.
const storeTimeout = 30 * time.Second

// caller is who calls, as far as the transport knows.
type caller struct {
	admin bool
	gone  func() bool // reports whether it is certain that the caller has gone

	remote string // address and port over HTTP; "" if unknown
}

// Call answers an envelope that came over NATS. ctx ends when the caller does not
// want the answer any more, which ends the wait for the lock; the function is waited
// for under lasting. authorization is what stood in the header of that name. gone
// reports whether it is certain by then that the caller has gone; it is asked when a
// call has waited for its lock. Call returns the answer, the HTTP status that goes with it, and the first error's code.
func (s *Server) Call(ctx, lasting context.Context, body []byte, authorization string, gone func() bool) (status int, code string, answer []byte) {
	r := s.serve(ctx, lasting, body, caller{admin: s.cfg.Tokens.Accept(authorization), gone: gone})
	answer = r.encode()
	return r.status, r.code, answer
}

// Refuse answers, as Call does, a request that the transport cannot let through.
func (s *Server) Refuse(err error) (status int, code string, answer []byte) {
	r := failed(nil, refused(err))
	answer = r.encode()
	return r.status, r.code, answer
}

// serve answers an envelope. ctx bounds the wait for the lock, lasting that for the
// function.
func (s *Server) serve(ctx, lasting context.Context, body []byte, by caller) *response {
	r, wrong := readRequest(body)
	if wrong != nil {
		return failed(r.id, wrong)
	}
	end, ok := s.beginCall()
	if !ok {
		return failed(r.id, stopping)
	}
	defer end()
	function, wrong := s.find(r.call, by)
	if wrong != nil {
		return failed(r.id, wrong)
	}
	if r.lock == nil {
		answer := newResponse(r.id)
		s.invoke(lasting, function, r.call, nil, answer)
		return answer
	}
	return s.serveLocked(ctx, lasting, r, function, by)
}

// serveLocked runs a function under a lock.
func (s *Server) serveLocked(ctx, lasting context.Context, r request, function function, by caller) *response {
	lock, refusal := s.acquire(ctx, r, by)
	if refusal != nil {
		return refusal
	}
	answer := newResponse(r.id)
	if ran := s.invoke(lasting, function, r.call, lock, answer); !ran {
		// The call took nothing that its caller would have to release.
		s.settle(lasting, lock, true, &lockData{})
		answer.attach(lockData{Key: r.lock.key})
		return answer
	}
	data := lockData{
		Key: r.lock.key, Acquired: true, Owner: lock.Owner, Scope: r.lock.scope,
		ExpiresAt: timestamp(lock.ExpiresAt), Fence: lock.Fence,
	}
	s.settle(lasting, lock, r.lock.autoRelease, &data)
	answer.attach(data)
	return answer
}

// runner carries out a call, and says what became of it. It may panic.
type runner func(ctx context.Context, c Call) (result json.RawMessage, errors []json.RawMessage, refusal *Error)

// function carries out calls, each within a time.
type function struct {
	run     runner
	timeout time.Duration
	late    *Error // what a call is told that takes longer
	stopped *Error // what a call is told that the server's end cuts short
}

// find is the function of that name: the server's own, one of this process, or
// else one of other processes, which may not be there.
func (s *Server) find(c call, by caller) (f function, wrong *Error) {
	if own, ok := s.own[c.Function]; ok {
		if c.Version != "" && c.Version != own.Version {
			return f, versionNotFound(c, own.Version)
		}
		return function{own.as(by), storeTimeout, storeSilent, stopping}, nil
	}
	if isReserved(c.Function) {
		return f, functionNotFound(c.Function)
	}
	f = function{nil, s.cfg.Timeout, deadlineExceeded, outcomeUnknown}
	if local := s.cfg.Functions.find(c.Function); local != nil {
		f.run = s.local(local)
		return f, nil
	}
	if s.cfg.NATS == nil {
		return f, functionNotFound(c.Function)
	}
	f.run = s.remote
	return f, nil
}
