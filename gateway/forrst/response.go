package forrst

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type response struct {
	Protocol   protocol          `json:"protocol"`
	ID         *string           `json:"id"`
	Result     json.RawMessage   `json:"result"`
	Errors     []json.RawMessage `json:"errors,omitempty"`
	Extensions []extension       `json:"extensions,omitempty"`

	status     int
	code       string // of the first error
	kind       string // what metrics call the failure, never a text of a function's; "" for none
	retryAfter int    // the value of the header Retry-After, in seconds; 0: none
}

type protocol struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type extension struct {
	URN  string   `json:"urn"`
	Data lockData `json:"data"`
}

// lockData describes the lock in a response. Only Key and Acquired are present if the
// lock was not acquired, or its function was not called.
type lockData struct {
	Key       string `json:"key"`
	Acquired  bool   `json:"acquired"`
	Owner     string `json:"owner,omitempty"`
	Scope     string `json:"scope,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Fence     uint64 `json:"fence,omitempty"`

	// The function had lost the lock when it ended, because the lock had expired or had
	// been released.
	Expired  bool `json:"lock_expired,omitempty"`
	Released bool `json:"lock_released,omitempty"`
}

var null = json.RawMessage("null")

func newResponse(id *string) *response {
	return &response{Protocol: protocol{protocolName, protocolVersion}, ID: id, Result: null, status: http.StatusOK}
}

// failed returns the response to a call that the server refused or abandoned.
func failed(id *string, e *Error) *response {
	r := newResponse(id)
	r.fail(e)
	return r
}

func (r *response) fail(e *Error) {
	r.Result, r.Errors = null, []json.RawMessage{encodeError(e)}
	r.status, r.code, r.kind, r.retryAfter = cmp.Or(e.status, http.StatusUnprocessableEntity), e.Code, e.Code, e.retryAfter
}

func (r *response) failAs(errors []json.RawMessage) {
	r.Result, r.Errors, r.status = null, errors, http.StatusUnprocessableEntity
	var first struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(errors[0], &first)
	r.code, r.kind = first.Code, codeFailed
}

func (r *response) attach(data lockData) {
	r.Extensions = []extension{{URN: lockURN, Data: data}}
}

// encode returns the JSON of the response. It encodes an error instead if the result
// cannot be part of a valid envelope: encoding/json supports up to 10,000 levels, and
// the result alone may have as many.
func (r *response) encode() json.RawMessage {
	body, err := wire.Encode(r)
	if err != nil || !json.Valid(body) {
		again := failed(r.ID, &Error{Code: codeInternal, Message: "The function's answer is not JSON, or is nested too deeply"})
		again.Extensions = r.Extensions
		r.status, r.code, r.kind = again.status, again.code, again.kind
		body, _ = wire.Encode(again)
	}
	return body
}

// reply encodes a response that is about to be sent, and counts it if it is a failure.
// That there was no lock to be had is counted by the operation.
func (s *Server) reply(r *response) *ops.Reply {
	body := r.encode() // may change the status
	if r.kind != "" && r.kind != codeNotAcquired && r.kind != codeLockTimeout {
		s.ops.Events.Failed(strings.ToLower(r.kind))
	}
	return &ops.Reply{Status: wire.Status{Code: r.status, Text: r.code, RetryAfter: r.retryAfter}, Body: body}
}
