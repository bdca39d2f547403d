package jsonhttp

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Operations carries operations over HTTP.
type Operations struct {
	Service *ops.Service

	// Call reads a request for an operation.
	Call func(w http.ResponseWriter, r *http.Request, op *ops.Operation) (ops.Call, error)

	// Log takes what a request failed of, and no secrets with it.
	Log zerolog.Logger
}

// Handle performs an operation for each request.
func (o *Operations) Handle(op *ops.Operation) http.HandlerFunc {
	return HandleAs(op.StatusOf, o.Log, func(w http.ResponseWriter, r *http.Request) error {
		arrived := time.Now()
		call, err := o.Call(w, r, op)
		if err != nil {
			return err
		}
		// What goes on though the client hangs up is bounded by itself.
		return o.Service.Do(r.Context(), context.Background(), call, func(outcome ops.Outcome) {
			o.deliver(w, r, op, outcome, arrived)
		})
	})
}

// deliver answers with an outcome. What was granted to a client that has hung up goes
// back at once: nothing else knows its id or its token.
func (o *Operations) deliver(w http.ResponseWriter, r *http.Request, op *ops.Operation, outcome ops.Outcome, arrived time.Time) {
	gone := outcome.Granted() && HungUp(r)
	if outcome.Lease != nil && !gone {
		w.Header().Set(wire.WaitedHeader, wire.Waited(outcome.Lease, arrived))
	}
	if !gone && answer(w, outcome.Answer) == nil || !outcome.Granted() {
		return
	}
	if err := o.Service.TakeBack(context.Background(), outcome); err != nil {
		o.Log.Warn().Err(err).Msg("what was granted to a client that hung up could not be taken back; it ends by itself")
	}
	if gone { // for the log and the metrics: the client does not read it
		Refuse(w, op.StatusOf(context.Canceled))
	}
}

// answer answers 200, or 204 when there is nothing to say.
func answer(w http.ResponseWriter, body any) error {
	if body == nil {
		return Done(w)
	}
	return Answer(w, http.StatusOK, body)
}

// ReadFields reads the body of a request for an operation.
func ReadFields(w http.ResponseWriter, r *http.Request, op *ops.Operation) (wire.Fields, error) {
	if !op.HasBody() {
		return wire.Fields{}, nil
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return wire.Fields{}, err
	}
	return op.Parse(body)
}

// PathValue is a segment of the path, decoded. chi matches the path as it was
// sent, and leaves the encoding in it, only if that differs from what net/url
// would have made of the decoded one; else it matches the latter, and to decode
// that again would make "%" of a "%25".
func PathValue(r *http.Request, name string) string {
	text := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return text
	}
	decoded, err := url.PathUnescape(text)
	if err != nil { // net/http has decoded the path before
		return text
	}
	return decoded
}
