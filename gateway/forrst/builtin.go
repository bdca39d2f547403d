package forrst

import (
	"context"
	"errors"
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	lockFunctions = "urn:cline:forrst:ext:atomic-lock:fn:"

	fnRelease      = lockFunctions + "release"
	fnForceRelease = lockFunctions + "force-release"
	fnStatus       = lockFunctions + "status"
)

const builtinVersion = "1.0.0"

type builtin struct {
	arguments []string
	run       func(ctx context.Context, args object, from *ops.Call) (any, *Error)
}

func (b builtin) runnerFor(from *ops.Call) runner {
	return func(ctx context.Context, c Call) outcome {
		args, wrong := readObject(c.Arguments, codeArguments, "arguments", "", b.arguments...)
		if wrong != nil {
			return outcome{refusal: wrong}
		}
		result, wrong := b.run(ctx, args, from)
		if wrong != nil {
			return outcome{refusal: wrong}
		}
		text, err := wire.Encode(result)
		if err != nil {
			return outcome{refusal: transportError(err)}
		}
		return outcome{result: text}
	}
}

func versionNotFound(c Call) *Error {
	return &Error{
		Code: codeVersion, Message: "No such version of the function", status: http.StatusNotFound,
		Details: map[string]any{"function": c.Function, "versions": []string{builtinVersion}},
	}
}

func (s *Server) newBuiltins() map[string]builtin {
	return map[string]builtin{
		fnRelease:      {[]string{"key", "owner"}, s.onLock(ops.ReleaseOwned)},
		fnForceRelease: {[]string{"key"}, s.forceRelease},
		fnStatus:       {[]string{"key"}, s.onLock(ops.StatusOwned)},
	}
}

// onLock returns a function that performs an operation on the lock that the argument "key"
// names.
func (s *Server) onLock(op *ops.Operation) func(context.Context, object, *ops.Call) (any, *Error) {
	return func(ctx context.Context, args object, _ *ops.Call) (any, *Error) {
		call := ops.Call{Operation: op}
		var wrong *Error
		if call.Key, wrong = args.key("key", maxFullKey); wrong != nil {
			return nil, wrong
		}
		if op == ops.ReleaseOwned {
			if call.Owner, wrong = args.plain("owner", maxOwner); wrong != nil {
				return nil, wrong
			}
		}
		if err := s.do(ctx, &call); err != nil {
			return nil, s.lockError(err, call.Key)
		}
		return call.Answer, nil
	}
}

// do performs an operation. The caller delivers its answer.
func (s *Server) do(ctx context.Context, call *ops.Call) error {
	return s.ops.Do(ctx, ctx, call, func() {})
}

func (s *Server) forceRelease(ctx context.Context, args object, from *ops.Call) (any, *Error) {
	if !s.cfg.Tokens.Accept(from.Envelope.Authorization) {
		return nil, &Error{Code: codeUnauthorized, Message: "force-release needs the gateway's token", status: http.StatusUnauthorized}
	}
	return s.onLock(ops.ForceRelease)(ctx, args, from)
}

var lockErrors = []struct {
	err     error
	code    string
	message string
	status  int
}{
	{kvslots.ErrNotHeld, codeNotFound, "Lock does not exist or already expired", http.StatusNotFound},
	{kvslots.ErrNotOwner, codeNotOwner, "Lock is owned by a different process", http.StatusConflict},
	{kvslots.ErrAlreadyReleased, codeReleasedBefore, "Lock was already released", http.StatusConflict},
}

func (s *Server) lockError(err error, key string) *Error {
	for _, row := range lockErrors {
		if errors.Is(err, row.err) {
			return &Error{Code: row.code, Message: row.message, status: row.status, Details: map[string]string{"key": key}}
		}
	}
	return s.storeError(err)
}
