package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type outcome struct {
	result  json.RawMessage
	errors  []json.RawMessage // from the function
	refusal *Error            // from the server
}

// invoke calls a function and adds its outcome to the answer. It returns when the
// function's time is over, even if a function of this process continues. ran is false
// if the function was certainly not called.
func (s *Server) invoke(detached context.Context, f function, c Call, lock *kvslots.OwnedLock, answer *response) (ran bool) {
	ctx, cancel := context.WithTimeout(detached, f.timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(errStopping) })()

	if lock != nil {
		c.Lock = &Lock{FullKey: lock.Name, Owner: lock.Owner, Fence: lock.Fence, ExpiresAt: lock.ExpiresAt}
	}
	done := make(chan outcome, 1)
	go func() { done <- s.runRecovered(ctx, f.run, c) }()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select {
		case o = <-done: // both at once: prefer the function's answer
		default:
			o = outcome{refusal: abandonError(ctx, f.timeoutError, f.stopError)}
		}
	}
	if o.refusal != nil && errors.Is(context.Cause(ctx), errStopping) {
		s.abandoned.Add(1)
	}
	switch {
	case o.refusal != nil:
		answer.fail(o.refusal)
	case len(o.errors) > 0:
		answer.failAs(o.errors)
	case o.result != nil:
		answer.Result = o.result
	}
	return o.refusal == nil || !o.refusal.notRun
}

// abandonError returns the error of a call whose function did not answer before ctx
// ended.
func abandonError(ctx context.Context, late, stopped *Error) *Error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return late
	}
	return stopped
}

// runRecovered calls a function, and turns a panic into an error.
func (s *Server) runRecovered(ctx context.Context, run runner, c Call) (o outcome) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		s.log.LogAttrs(ctx, slog.LevelError, "a function panicked", ops.PanicAttrs(reason)...)
		o = outcome{errors: []json.RawMessage{encodeError(&Error{Code: codeInternal, Message: "The function panicked"})}}
	}()
	return run(ctx, c)
}

// inProcess returns the runner of a function of this process.
func (s *Server) inProcess(f Func) runner {
	return func(ctx context.Context, c Call) outcome {
		result, err := f(ctx, c)
		if err == nil {
			var text json.RawMessage
			if text, err = wire.Encode(result); err == nil {
				return outcome{result: text}
			}
		}
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return outcome{refusal: abandonError(ctx, deadlineExceeded, outcomeUnknown)}
		}
		return outcome{errors: s.functionErrors(err)}
	}
}
