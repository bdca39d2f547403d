package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// Refusal is an answer that is no success, as a client returns it. errors.Is finds
// what it stands for.
type Refusal struct {
	Status     int           // of HTTP, whatever carried it
	Text       string        // for people; "" if the answer is not of a gateway's form
	RetryAfter time.Duration // when to send the request again; 0 if the answer does not say
	Err        error         // the error that it stands for; nil if that is not known
}

// NewRefusal reads an answer: its status, its ErrorHeader and its body.
func NewRefusal(status int, name string, body []byte) *Refusal {
	r := &Refusal{Status: status}
	var failure Failure
	if json.Unmarshal(body, &failure) == nil {
		r.Text = failure.Error
		if failure.Detail != "" {
			r.Text = failure.Detail
		}
	}
	r.Err = r.meaning(name)
	return r
}

func (r *Refusal) Error() string {
	if r.Text == "" {
		return fmt.Sprintf("HTTP status %d", r.Status)
	}
	return r.Text
}

func (r *Refusal) Unwrap() error { return r.Err }

// meaning is the error that a name stands for, as far as it is the caller's business:
// a client that is told of a failure of the gateway's holds nothing, and may try
// again. Of an answer without a name, which a proxy may have given, the status says
// what there is to know.
func (r *Refusal) meaning(name string) error {
	if field, allowed, ok := strings.Cut(r.Text, " must be "); ok && name == badRequest {
		return &kvslots.RangeError{Field: field, Range: allowed}
	}
	for _, row := range table {
		if row.Name == name && row.definite() {
			return row.err
		}
	}
	switch {
	case name == badRequest, name == "" && r.Status < http.StatusInternalServerError && r.Status != http.StatusConflict:
		return nil
	case r.Status == http.StatusConflict:
		return kvslots.ErrNoSlot
	}
	return kvslots.ErrUnavailable
}

// definite reports whether the request was understood, and refused for what it asks.
func (s Status) definite() bool {
	return s.Capped || s.Code < StatusClientGone && s.Name != badRequest
}
