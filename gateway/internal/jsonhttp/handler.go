// Package jsonhttp is how the gateway reads and writes JSON over HTTP: bodies
// that are bounded in size and in time, compact answers, and errors rendered
// in one place.
package jsonhttp

import (
	"errors"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Handler answers a request, or returns the error that is to be the answer.
// It must not return an error once it has begun to write.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Handle renders what a Handler returns as the Library API does (wire.StatusOf).
func Handle(log zerolog.Logger, handler Handler) http.HandlerFunc {
	return HandleAs(wire.StatusOf, log, handler)
}

// HandleAs renders what a Handler returns as the table has it. The detail of an
// error that is our fault goes into the log and nowhere else.
func HandleAs(statusOf wire.Lookup, log zerolog.Logger, handler Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handler(w, r); err != nil {
			refuse(w, err, statusOf, &log)
		}
	}
}

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
	w.Header().Set(wire.ErrorHeader, status.Name)
	if status.Retry {
		w.Header().Set(wire.RetryAfterHeader, "1")
	}
	_ = Answer(w, status.Code, status.Failure())
}
