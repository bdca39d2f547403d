package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// Refusal is the error that a client returns for an answer that reports a failure. It
// wraps Err.
type Refusal struct {
	Status     int           // HTTP status, on every transport
	Text       string        // for people; "" if a gateway did not write the answer
	RetryAfter time.Duration // from RetryAfterHeader; 0 without it
	Err        error         // the error that the gateway has reported; nil if unknown
}

// NewRefusal returns the Refusal of an answer with the given status, headers and body.
func NewRefusal(status int, header interface{ Get(name string) string }, body []byte) *Refusal {
	r := &Refusal{Status: status, RetryAfter: parseRetryAfter(header.Get(RetryAfterHeader), time.Now())}
	var failure Failure
	if json.Unmarshal(body, &failure) == nil {
		r.Text = cmp.Or(failure.Detail, failure.Error)
	}
	name, field := header.Get(ErrorHeader), header.Get(FieldHeader)
	if name == badRequest && field != "" {
		r.Err = &kvslots.RangeError{Field: field, Range: header.Get(RangeHeader)}
	} else {
		r.Err = Explained(r.meaning(name, header.Get(CauseHeader)), header)
	}
	if r.Err == kvslots.ErrExpired || r.Err == kvslots.ErrEvicted {
		r.Text = r.Err.Error()
	}
	return r
}

// parseRetryAfter parses a number of seconds or a date (RFC 9110, 10.2.3).
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

func (r *Refusal) Error() string {
	if taken, ok := errors.AsType[*kvslots.TakenError](r.Err); ok {
		return taken.Error()
	}
	if r.Text == "" {
		return fmt.Sprintf("HTTP status %d", r.Status)
	}
	return r.Text
}

func (r *Refusal) Unwrap() error { return r.Err }

// Pause returns RetryAfter, for package kvslots.
func (r *Refusal) Pause() time.Duration { return r.RetryAfter }

// meaning returns the error for values of ErrorHeader and CauseHeader: nil for a wrong request, and
// kvslots.ErrUnavailable for every failure of a gateway, after which the client holds
// nothing and may try again. Without ErrorHeader, as from a proxy, the status alone decides.
func (r *Refusal) meaning(name, cause string) error {
	if name == badRequest || isClientFault(name, r.Status) {
		return nil
	}
	for _, row := range table {
		if row.Name == name && row.definite() && (row.Cause == "" || row.Cause == cause) {
			return row.err
		}
	}
	if r.Status == http.StatusConflict {
		return kvslots.ErrNoSlot
	}
	return kvslots.ErrUnavailable
}

// definite reports whether the client returns the error of the Status. It does not for
// wrong requests and failures: see meaning.
func (s Status) definite() bool {
	return s.Capped || s.Code == http.StatusInsufficientStorage || s.Code < StatusClientGone && s.Name != badRequest
}
