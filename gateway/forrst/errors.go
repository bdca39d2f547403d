package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

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

const messageFailed = "The function failed"

// errStopping is the cause with which calls end when the server is closed.
var errStopping = errors.New("the gateway stops")

// Error is the reason why a call failed. If a function of this process returns an
// Error, it is passed on to the caller.
type Error struct {
	Code      string `json:"code"` // capital letters and underscores
	Message   string `json:"message"`
	Details   any    `json:"details,omitempty"`
	Retryable bool   `json:"retryable"`

	notRun     bool // the function was certainly not called
	status     int  // HTTP status, on every transport; 0 means 422
	retryAfter int  // the value of the header Retry-After, in seconds; 0: none
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// fault returns the error for a field that is missing, of another type or out of range.
// Its text contains nothing from the request.
func fault(code, field, allowed string) *Error {
	return &Error{
		Code: code, Message: field + " must be " + allowed, status: http.StatusBadRequest,
		Details: map[string]string{"field": field, "allowed": allowed},
	}
}

func functionNotFound(name string) *Error {
	return &Error{
		Code: codeFunction, Message: "No such function", notRun: true, status: http.StatusNotFound,
		Details: map[string]string{"function": name},
	}
}

// unavailable returns an error for a call that had no effect, so that the caller may
// repeat it.
func unavailable(message string) *Error {
	return &Error{Code: codeUnavailable, Message: message, Retryable: true, notRun: true, status: http.StatusServiceUnavailable, retryAfter: 1}
}

func rateLimited(limit error) *Error {
	return &Error{Code: codeRateLimited, Message: textOf(limit), Retryable: true, notRun: true, status: http.StatusTooManyRequests, retryAfter: wire.CodeOf(limit).RetryAfter}
}

var (
	// outcomeUnknown is for a function that had not answered when the gateway stopped.
	outcomeUnknown = &Error{
		Code: codeUnavailable, Message: "The gateway stops; the function may have been carried out, or may be yet",
		status: http.StatusServiceUnavailable,
	}

	deadlineExceeded = &Error{
		Code: codeDeadline, Message: "The function did not answer in time; it may have been carried out, or may be yet",
		status: http.StatusGatewayTimeout,
	}

	stopping        = unavailable(textOf(wire.ErrDraining))
	clientGone      = &Error{Code: codeUnavailable, Message: textOf(context.Canceled), Retryable: true, status: wire.StatusClientGone}
	storeUnanswered = unavailable(textOf(kvslots.ErrUnavailable))
	storeFull       = &Error{Code: codeUnavailable, Message: textOf(kvslots.ErrFull), Retryable: true, notRun: true, status: wire.CodeOf(kvslots.ErrFull).Code}
)

func textOf(err error) string {
	text := wire.CodeOf(err).Detail
	return strings.ToUpper(text[:1]) + text[1:]
}

// refusals are the answers to errors of the store and of the transport that do not depend
// on the request. The first row that matches applies.
var refusals = []struct {
	err    error
	answer *Error
}{
	{wire.ErrTooLarge, &Error{Code: codeRequest, Message: wire.ErrTooLarge.Error(), status: http.StatusRequestEntityTooLarge}},
	{wire.ErrTooSlow, &Error{Code: codeRequest, Message: wire.ErrTooSlow.Error(), Retryable: true, status: http.StatusRequestTimeout}},
	{wire.ErrMalformed, &Error{Code: codeParse, Message: "the body broke off", status: http.StatusBadRequest}},
	{wire.ErrAnswerTooLarge, &Error{Code: codeInternal, Message: wire.ErrAnswerTooLarge.Error()}},
	{wire.ErrMaxWaitersTotal, unavailable(textOf(wire.ErrMaxWaitersTotal))},
	{wire.ErrMaxWaitersPerIP, rateLimited(wire.ErrMaxWaitersPerIP)},
	{kvslots.ErrMaxTombstones, rateLimited(kvslots.ErrMaxTombstones)},
	{wire.ErrBusy, unavailable(wire.ErrBusy.Error())},
	{wire.ErrDraining, stopping},
	{kvslots.ErrClosed, stopping},
	{kvslots.ErrMaxLocks, unavailable("The maximum number of locks is in use")},
	{kvslots.ErrMaxLocksPerOrigin, rateLimited(kvslots.ErrMaxLocksPerOrigin)},
	{kvslots.ErrKeyReused, &Error{Code: codeArguments, Message: textOf(kvslots.ErrKeyReused), status: http.StatusUnprocessableEntity}},
	{kvslots.ErrMaxWaiters, unavailable("The maximum number of calls wait for the lock")},
	{kvslots.ErrFull, storeFull}, // precedes ErrUnavailable, which it wraps
	{kvslots.ErrUnavailable, storeUnanswered},
	{context.DeadlineExceeded, storeUnanswered},
	{errStopping, stopping},
	{context.Canceled, clientGone},
}

// refusalOf returns the answer to an error, or nil for one that the table does not contain.
// code is that of a field out of range.
func refusalOf(err error, code string) *Error {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return fault(code, wrong.Field, wrong.Range)
	}
	for _, row := range refusals {
		if errors.Is(err, row.err) {
			return row.answer
		}
	}
	return nil
}

func transportError(err error) *Error {
	if answer := refusalOf(err, codeRequest); answer != nil {
		return answer
	}
	return &Error{Code: codeInternal, Message: wire.Internal.Text, Retryable: true, status: wire.Internal.Code}
}

// storeError returns the answer to an error of an operation on a lock. It logs an error that
// the table does not contain.
func (s *Server) storeError(err error) *Error {
	if answer := refusalOf(err, codeArguments); answer != nil {
		return answer
	}
	s.log.Error("a lock failed", "error", err)
	return unavailable("The store failed; safe to retry")
}

// functionErrors returns the answer to an error of a function of this process. It logs
// an error that is not an Error, because the caller must not see its text.
func (s *Server) functionErrors(err error) []json.RawMessage {
	answer, ok := errors.AsType[*Error](err)
	if !ok {
		s.log.Warn("a function failed", "error", err)
		answer = &Error{Code: codeFailed, Message: messageFailed}
	}
	return []json.RawMessage{encodeError(answer)}
}

func encodeError(e *Error) json.RawMessage {
	text, err := wire.Encode(e)
	if err != nil {
		bare := *e
		bare.Details = nil
		text, _ = wire.Encode(bare) // cannot fail for strings and a bool
	}
	return text
}
