// Package jsonhttp reads and writes JSON over HTTP: bodies that are bounded in size and
// time, compact answers, and errors from the table of package wire.
package jsonhttp

import (
	"errors"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// refuse answers with an error, as the table renders it. The detail of a server error
// is only logged.
func refuse(w http.ResponseWriter, err error, statusOf wire.Lookup, log *zerolog.Logger) {
	status := statusOf(err)
	if status.Failed() {
		log.Error().Err(err).Int("status", status.Code).Msg("request failed")
	}
	if errors.Is(err, wire.ErrTooSlow) {
		w.Header().Set("Connection", "close") // the rest of the body may still come
	}
	Refuse(w, status)
}

// Refuse answers with a status other than success.
func Refuse(w http.ResponseWriter, status wire.Status) {
	status.Headers(w.Header().Set)
	_ = Answer(w, status.Code, status.Failure())
}
