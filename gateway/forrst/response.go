package forrst

import (
	"encoding/json"
	"net/http"
	"time"
)

// response is an envelope that answers a request.
type response struct {
	Protocol   protocol          `json:"protocol"`
	ID         *string           `json:"id"`
	Result     json.RawMessage   `json:"result"`
	Errors     []json.RawMessage `json:"errors,omitempty"`
	Extensions []extension       `json:"extensions,omitempty"`

	status int
	code   string // of the first error
	later  bool   // say in how many seconds to try again
}

type protocol struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type extension struct {
	URN  string   `json:"urn"`
	Data lockData `json:"data"`
}

// lockData is what a response says of the lock; all but the first two only of one
// that was acquired for a function that was called.
type lockData struct {
	Key       string `json:"key"`
	Acquired  bool   `json:"acquired"`
	Owner     string `json:"owner,omitempty"`
	Scope     string `json:"scope,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Fence     uint64 `json:"fence,omitempty"`

	// The function had lost the lock when it ended: its time was over, or
	// it had been released.
	Expired  bool `json:"lock_expired,omitempty"`
	Released bool `json:"lock_released,omitempty"`
}

var null = json.RawMessage("null")

func newResponse(id *string) *response {
	return &response{Protocol: protocol{protocolName, protocolVersion}, ID: id, Result: null, status: http.StatusOK}
}

// failed is the response to a call that the server itself refused or gave up.
func failed(id *string, e *Error) *response {
	r := newResponse(id)
	r.fail(e)
	return r
}

func (r *response) fail(e *Error) {
	r.Result, r.Errors = null, []json.RawMessage{encodeError(e)}
	r.status, r.code, r.later = e.httpStatus(), e.Code, e.later
}

// failAs passes on the errors of a function.
func (r *response) failAs(errors []json.RawMessage) {
	r.Result, r.Errors, r.status = null, errors, http.StatusUnprocessableEntity
	var first struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(errors[0], &first)
	r.code = first.Code
}

func (r *response) attach(data lockData) {
	r.Extensions = []extension{{URN: lockURN, Data: data}}
}

// encode makes a failure of a response whose parts are JSON, but which is none as a
// whole: encoding/json reads no more than 10,000 levels, and a function's answer may
// have as many by itself.
func (r *response) encode() []byte {
	body, err := json.Marshal(r)
	if err != nil || !json.Valid(body) {
		again := failed(r.ID, &Error{Code: codeInternal, Message: "The function's answer is no JSON, or is nested too deeply"})
		again.Extensions = r.Extensions
		r.status, r.code = again.status, again.code
		body, _ = json.Marshal(again)
	}
	return body
}

// timestamp is ISO 8601 in UTC, cut to seconds.
func timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }
