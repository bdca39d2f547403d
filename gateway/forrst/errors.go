package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// The codes of errors (gateway/README.md, "Errors of Forrst").
const (
	codeParse          = "PARSE_ERROR"
	codeRequest        = "INVALID_REQUEST"
	codeProtocol       = "INVALID_PROTOCOL_VERSION"
	codeExtension      = "EXTENSION_NOT_SUPPORTED"
	codeArguments      = "INVALID_ARGUMENTS"
	codeFunction       = "FUNCTION_NOT_FOUND"
	codeVersion        = "VERSION_NOT_FOUND"
	codeForbidden      = "FORBIDDEN"
	codeUnauthorized   = "UNAUTHORIZED"
	codeRateLimited    = "RATE_LIMITED"
	codeInternal       = "INTERNAL_ERROR"
	codeFailed         = "FUNCTION_ERROR"
	codeUnavailable    = "UNAVAILABLE"
	codeDeadline       = "DEADLINE_EXCEEDED"
	codeNotAcquired    = "LOCK_ACQUISITION_FAILED"
	codeLockTimeout    = "LOCK_TIMEOUT"
	codeNotFound       = "LOCK_NOT_FOUND"
	codeNotOwner       = "LOCK_OWNERSHIP_MISMATCH"
	codeReleasedBefore = "LOCK_ALREADY_RELEASED"
)

// messageFailed is what is told of a function that does not say why it failed.
const messageFailed = "The function failed"

// errStopping is the cause of the end of calls when the server is closed.
var errStopping = errors.New("the gateway stops")

// Error is why a call failed. A function of this process that returns one fails
// with exactly this error.
type Error struct {
	Code      string `json:"code"` // in capitals and underscores
	Message   string `json:"message"`
	Details   any    `json:"details,omitempty"`
	Retryable bool   `json:"retryable"`

	undone bool // nothing was carried out
	status int  // of HTTP, on every transport; 0 means 422
	later  bool // say in how many seconds to try again
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// httpStatus is 422 for what is a function's own.
func (e *Error) httpStatus() int {
	if e.status == 0 {
		return http.StatusUnprocessableEntity
	}
	return e.status
}

// fault reports a field that is missing, of another type or out of range. Its text
// holds nothing of the request.
func fault(code, field, allowed string) *Error {
	return &Error{
		Code: code, Message: field + " must be " + allowed, status: http.StatusBadRequest,
		Details: map[string]string{"field": field, "allowed": allowed},
	}
}

func functionNotFound(name string) *Error {
	return &Error{
		Code: codeFunction, Message: "No such function", undone: true, status: http.StatusNotFound,
		Details: map[string]string{"function": name},
	}
}

// unavailable says that nothing was done, so that the call may be repeated.
func unavailable(message string) *Error {
	return &Error{Code: codeUnavailable, Message: message, Retryable: true, undone: true, status: http.StatusServiceUnavailable, later: true}
}

var (
	// outcomeUnknown is for a function that was called, and whose answer the
	// gateway could not wait for.
	outcomeUnknown = &Error{
		Code: codeUnavailable, Message: "The gateway stops; the function may have been carried out, or may be yet",
		status: http.StatusServiceUnavailable,
	}

	deadlineExceeded = &Error{
		Code: codeDeadline, Message: "The function did not answer in time; it may have been carried out, or may be yet",
		status: http.StatusGatewayTimeout,
	}

	stopping    = unavailable("The gateway is about to stop")
	clientGone  = &Error{Code: codeUnavailable, Message: "The client went away", Retryable: true, status: wire.StatusClientGone}
	storeSilent = unavailable("The store did not answer; safe to retry")
)

// refused is the answer to an error that the transport has found.
func refused(err error) *Error {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return fault(codeRequest, wrong.Field, wrong.Range)
	}
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return &Error{Code: codeRequest, Message: wire.ErrTooLarge.Error(), status: http.StatusRequestEntityTooLarge}
	case errors.Is(err, wire.ErrTooSlow):
		return &Error{Code: codeRequest, Message: wire.ErrTooSlow.Error(), Retryable: true, status: http.StatusRequestTimeout}
	case errors.Is(err, wire.ErrMalformed):
		return &Error{Code: codeParse, Message: "the body broke off", status: http.StatusBadRequest}
	case errors.Is(err, wire.ErrAnswerTooLarge):
		return &Error{Code: codeInternal, Message: wire.ErrAnswerTooLarge.Error()}
	case errors.Is(err, wire.ErrMaxWaitersTotal):
		return unavailable("Too many requests wait at the gateway")
	case errors.Is(err, wire.ErrMaxWaitersPerIP):
		return &Error{Code: codeRateLimited, Message: "Too many requests of the address wait", Retryable: true, undone: true, status: http.StatusTooManyRequests, later: true}
	case errors.Is(err, wire.ErrBusy):
		return unavailable(wire.ErrBusy.Error())
	case errors.Is(err, wire.ErrDraining):
		return stopping
	}
	return &Error{Code: codeInternal, Message: wire.Internal.Text, Retryable: true, status: wire.Internal.Code}
}

// storeErrors are the errors of the store but for those that depend on what was
// asked for. The first row that matches wins.
var storeErrors = []struct {
	err  error
	told *Error
}{
	{wire.ErrDraining, stopping},
	{kvslots.ErrClosed, stopping},
	{kvslots.ErrMaxLocks, unavailable("As many locks are in use as there may be")},
	{kvslots.ErrMaxWaiters, unavailable("As many calls wait for the lock as may")},
	{kvslots.ErrUnavailable, storeSilent},
	{context.DeadlineExceeded, storeSilent},
	{errStopping, stopping},
	{context.Canceled, clientGone},
}

// storeError translates an error of the store. One that the table does not know is
// for the log.
func (s *Server) storeError(err error) *Error {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return fault(codeArguments, wrong.Field, wrong.Range)
	}
	for _, row := range storeErrors {
		if errors.Is(err, row.err) {
			return row.told
		}
	}
	s.log.Error().Err(err).Msg("a lock failed")
	return unavailable("The store failed; safe to retry")
}

// ownErrors are what a function of this process failed of, as it is told.
func (s *Server) ownErrors(err error) []json.RawMessage {
	told, ok := errors.AsType[*Error](err)
	if !ok {
		s.log.Warn().Err(err).Msg("a function failed")
		told = &Error{Code: codeFailed, Message: messageFailed}
	}
	return []json.RawMessage{encodeError(told)}
}

// encodeError leaves out details that are no JSON.
func encodeError(e *Error) json.RawMessage {
	text, err := json.Marshal(e)
	if err != nil {
		bare := *e
		bare.Details = nil
		text, _ = json.Marshal(bare) // strings and a bool always can be
	}
	return text
}
