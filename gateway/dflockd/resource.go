package dflockd

import (
	"context"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/locking"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// pathValue is a segment of the path, decoded. chi matches the path as it was
// sent, and leaves the encoding in it, only if that differs from what net/url
// would have made of the decoded one; else it matches the latter, and to decode
// that again would make "%" of a "%25".
func pathValue(r *http.Request, name string) string {
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

// serve answers POST /v1/locks/{key}, /v1/semaphores/{key}, and what is below
// (gateway/README.md, "The dflockd API: /v1").
func (d *Dialect) serve(kind kvslots.Kind, op locking.Operation) jsonhttp.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		call, err := d.read(w, r, kind, op)
		if err != nil {
			return err
		}
		lasting := context.WithoutCancel(r.Context())
		return d.desk.Do(r.Context(), lasting, call, func(outcome locking.Outcome) {
			d.hand(w, r, call, outcome)
		})
	}
}

func (d *Dialect) read(w http.ResponseWriter, r *http.Request, kind kvslots.Kind, op locking.Operation) (locking.Call, error) {
	body, err := readBody(w, r)
	if err != nil {
		return locking.Call{}, err
	}
	session := r.Header.Values(wire.SessionHeader)
	if len(session) != 1 || session[0] == "" {
		return locking.Call{}, &kvslots.RangeError{Field: "header " + wire.SessionHeader, Range: "the id of a session"}
	}
	key := pathValue(r, "key")
	if err := wire.CheckKey(key); err != nil {
		return locking.Call{}, err
	}
	return d.desk.NewCall(op, kind, session[0], key, body)
}

// hand gives the outcome to its client. When that one has hung up meanwhile,
// nobody knows the token, so what was granted goes back at once.
func (d *Dialect) hand(w http.ResponseWriter, r *http.Request, call locking.Call, outcome locking.Outcome) {
	if outcome.Answer == nil {
		_ = jsonhttp.Done(w)
		return
	}
	gone := outcome.Grant != nil && jsonhttp.HungUp(r)
	if !gone && jsonhttp.Answer(w, http.StatusOK, outcome.Answer) == nil || outcome.Grant == nil {
		return
	}
	if err := d.desk.TakeBack(context.WithoutCancel(r.Context()), call, outcome.Grant); err != nil {
		d.log.Warn().Err(err).Msg("a grant whose client hung up could not be released; it ends by its ttl")
	}
	if gone { // nobody reads it; the log and the metrics are to say what became of the request
		status := wire.CodeOf(context.Canceled)
		_ = jsonhttp.Answer(w, status.Code, status.Failure())
	}
}

// stats answers GET /v1/stats (gateway/README.md, "Statistics").
func (d *Dialect) stats(w http.ResponseWriter, r *http.Request) error {
	stats, err := d.sessions.Stats(r.Context())
	if err != nil {
		return err
	}
	_ = jsonhttp.Answer(w, http.StatusOK, wire.NewStats(stats, d.clients()))
	return nil
}
