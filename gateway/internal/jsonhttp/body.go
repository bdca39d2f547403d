package jsonhttp

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// LimitBodyTime bounds how long a request's body may take to arrive, also for
// handlers that never read it: net/http then does, to find the next request. The
// server's own ReadTimeout would not do: it goes on after the body and would end a
// borrow that waits.
func LimitBodyTime(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit))
	}
}

// ReadBody reads the whole body, to its end: only then does net/http begin to
// watch for a client that hangs up. It returns wire.ErrTooLarge,
// wire.ErrTooSlow, or wire.ErrMalformed for a body that broke off.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return nil, wire.ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, wire.ErrTooSlow
	case err != nil:
		return nil, wire.ErrMalformed
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // see LimitBodyTime
	return body, nil
}
