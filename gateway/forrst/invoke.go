package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/kvslots/kvslots/kvslots"
)

// outcome is what became of a function.
type outcome struct {
	result  json.RawMessage
	errors  []json.RawMessage // the function's own
	refusal *Error            // the server's
}

// invoke calls a function and puts into the answer what became of it. It waits no
// longer than the function's time, even for a function of this process that goes
// on. It returns false if it is certain that nothing was carried out.
func (s *Server) invoke(lasting context.Context, f function, c call, lock *kvslots.OwnedLock, answer *response) (ran bool) {
	ctx, cancel := context.WithTimeout(lasting, f.timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(errStopping) })()

	done := make(chan outcome, 1)
	go func() { done <- s.protected(ctx, f.run, newCall(c, lock)) }()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select {
		case o = <-done: // both at once: what is known is told
		default:
			o = outcome{refusal: gaveUp(ctx, f.late, f.stopped)}
		}
	}
	if o.refusal != nil && errors.Is(context.Cause(ctx), errStopping) {
		s.cut.Add(1)
	}
	switch {
	case o.refusal != nil:
		answer.fail(o.refusal)
	case len(o.errors) > 0:
		answer.failAs(o.errors)
	case o.result != nil:
		answer.Result = o.result
	}
	return o.refusal == nil || !o.refusal.undone
}

// gaveUp says why a call was not waited for any longer.
func gaveUp(ctx context.Context, late, stopped *Error) *Error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return late
	}
	return stopped
}

func newCall(c call, lock *kvslots.OwnedLock) Call {
	made := Call{Function: c.Function, Version: c.Version, Arguments: c.Arguments}
	if lock != nil {
		made.Lock = &Lock{FullKey: lock.Name, Owner: lock.Owner, Fence: lock.Fence, ExpiresAt: lock.ExpiresAt}
	}
	return made
}

// protected makes an error of a panic, whose own text may hold what a call had in
// it.
func (s *Server) protected(ctx context.Context, run runner, c Call) (o outcome) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		text := fmt.Sprintf("%T", reason)
		if err, ok := reason.(runtime.Error); ok {
			text = err.Error()
		}
		s.log.Error().Str("panic", text).Bytes("stack", debug.Stack()).Msg("a function panicked")
		o = outcome{errors: []json.RawMessage{encodeError(&Error{Code: codeInternal, Message: "The function panicked"})}}
	}()
	o.result, o.errors, o.refusal = run(ctx, c)
	return o
}

// local makes a function of one that was registered in this process.
func (s *Server) local(f Func) runner {
	return func(ctx context.Context, c Call) (json.RawMessage, []json.RawMessage, *Error) {
		result, err := f(ctx, c)
		if err == nil {
			var text json.RawMessage
			if text, err = json.Marshal(result); err == nil {
				return text, nil, nil
			}
		}
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil, nil, gaveUp(ctx, deadlineExceeded, outcomeUnknown)
		}
		return nil, s.ownErrors(err), nil
	}
}
