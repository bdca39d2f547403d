// Package jsonhttp performs operations over HTTP with JSON: it reads bodies of bounded
// size and time, and writes compact answers, and errors according to the table of package
// wire.
package jsonhttp

import (
	"net/http"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// refuse answers with an error according to the table, and counts it. The text of a server
// error is logged, and is not in the answer.
func (o *Operations) refuse(w http.ResponseWriter, err error, statusOf wire.Lookup) {
	status := statusOf(err)
	o.Service.Events.Failed(status.Name)
	if status.Failed() {
		o.Log.Error().Err(err).Int("status", status.Code).Str("request_id", w.Header().Get(wire.RequestIDHeader)).Msg("request failed")
	}
	Refuse(w, status)
}

// Refuse answers with a status other than success.
func Refuse(w http.ResponseWriter, status wire.Status) {
	status.Headers(w.Header().Set)
	_ = Answer(w, status.Code, status.Failure())
}
