package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// The names of the built-in functions.
const (
	lockFunctions = "urn:cline:forrst:ext:atomic-lock:fn:"

	fnRelease      = lockFunctions + "release"
	fnForceRelease = lockFunctions + "force-release"
	fnStatus       = lockFunctions + "status"
	fnPing         = "urn:cline:forrst:fn:ping"
	fnHealth       = "urn:cline:forrst:fn:health"
	fnCapabilities = "urn:cline:forrst:ext:discovery:fn:capabilities"
	fnDescribe     = "urn:cline:forrst:ext:discovery:fn:describe"
)

// builtinVersion is the version of every built-in function.
const builtinVersion = "1.0.0"

// builtin is a function that the server provides itself.
type builtin struct {
	description
	run func(ctx context.Context, args object, from caller) (any, *Error)
}

// runnerFor returns the function as a runner for calls of one caller.
func (b builtin) runnerFor(from caller) runner {
	return func(ctx context.Context, c Call) outcome {
		known := []string{}
		for _, argument := range b.Arguments {
			known = append(known, argument.Name)
		}
		args, wrong := readArguments(c.Arguments, known)
		if wrong != nil {
			return outcome{refusal: wrong}
		}
		result, wrong := b.run(ctx, args, from)
		if wrong != nil {
			return outcome{refusal: wrong}
		}
		text, err := json.Marshal(result)
		if err != nil {
			return outcome{refusal: transportError(err)}
		}
		return outcome{result: text}
	}
}

func readArguments(raw json.RawMessage, known []string) (object, *Error) {
	if len(known) > 0 {
		return readObject(raw, codeArguments, "arguments", "", known...)
	}
	o, wrong := readObject(raw, codeArguments, "arguments", "")
	if wrong != nil {
		wrong = fault(codeArguments, "arguments", "empty")
	}
	return o, wrong
}

func versionNotFound(c call, version string) *Error {
	return &Error{
		Code: codeVersion, Message: "No such version of the function", status: http.StatusNotFound,
		Details: map[string]any{"function": c.Function, "versions": []string{version}},
	}
}

// newBuiltins returns the built-in functions by name.
func (s *Server) newBuiltins() map[string]builtin {
	all := map[string]builtin{}
	run := map[string]func(context.Context, object, caller) (any, *Error){
		fnRelease: s.release, fnForceRelease: s.forceRelease, fnStatus: s.status,
		fnPing: s.ping, fnHealth: s.health, fnCapabilities: s.capabilities, fnDescribe: s.describe,
	}
	for _, d := range descriptions {
		all[d.Name] = builtin{d, run[d.Name]}
	}
	return all
}

// releasedResult is the result of release and force-release.
type releasedResult struct {
	Released bool   `json:"released"`
	Key      string `json:"key"`
	Forced   bool   `json:"forced,omitempty"`
}

// onLock calls do with the lock that the argument "key" names.
func (s *Server) onLock(args object, do func(key string) (any, error)) (any, *Error) {
	key, wrong := args.key("key", maxFullKey)
	if wrong != nil {
		return nil, wrong
	}
	result, err := do(key)
	if err != nil {
		return nil, s.lockError(err, key)
	}
	if _, released := result.(releasedResult); released {
		s.events.Returned()
	}
	return result, nil
}

func (s *Server) release(ctx context.Context, args object, _ caller) (any, *Error) {
	return s.onLock(args, func(key string) (any, error) {
		owner, wrong := args.plain("owner", maxOwner)
		if wrong != nil {
			return nil, wrong
		}
		return releasedResult{Released: true, Key: key}, s.locks.ReleaseOwned(ctx, key, owner)
	})
}

func (s *Server) forceRelease(ctx context.Context, args object, from caller) (any, *Error) {
	switch {
	case s.cfg.NoForceRelease:
		return nil, &Error{Code: codeForbidden, Message: "force-release is switched off", status: http.StatusForbidden}
	case !from.admin:
		return nil, &Error{Code: codeUnauthorized, Message: "force-release needs the gateway's token", status: http.StatusUnauthorized}
	}
	return s.onLock(args, func(key string) (any, error) {
		return releasedResult{Released: true, Key: key, Forced: true}, s.locks.ForceRelease(ctx, key)
	})
}

// lockErrors are the errors of releases.
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
	if wrong, ok := errors.AsType[*Error](err); ok {
		return wrong
	}
	for _, row := range lockErrors {
		if errors.Is(err, row.err) {
			return &Error{Code: row.code, Message: row.message, status: row.status, Details: map[string]string{"key": key}}
		}
	}
	return s.storeError(err)
}

// statusResult is the result of status. A lock that is not held has only the first two
// fields.
type statusResult struct {
	Key          string `json:"key"`
	Locked       bool   `json:"locked"`
	Owner        string `json:"owner,omitempty"`
	AcquiredAt   string `json:"acquired_at,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`
	TTLRemaining *int64 `json:"ttl_remaining,omitempty"` // whole seconds
	Fence        uint64 `json:"fence,omitempty"`
}

func (s *Server) status(ctx context.Context, args object, _ caller) (any, *Error) {
	return s.onLock(args, func(key string) (any, error) {
		status, err := s.locks.OwnedStatus(ctx, key)
		if err != nil || !status.Held {
			return statusResult{Key: key}, err
		}
		left := int64(status.ExpiresIn / time.Second)
		return statusResult{
			Key: key, Locked: true, Owner: status.Owner, Fence: status.Fence,
			AcquiredAt: timestamp(status.AcquiredAt), ExpiresAt: timestamp(status.ExpiresAt), TTLRemaining: &left,
		}, nil
	})
}
