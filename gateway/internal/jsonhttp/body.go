package jsonhttp

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// LimitBodyTime bounds the time in which a request's body must arrive, even if the
// handler does not read it: net/http then does, to find the next request. The server's
// own ReadTimeout continues after the body, and would cut a borrow that waits.
func LimitBodyTime(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.Body != http.NoBody {
		control, end := http.NewResponseController(w), time.Now().Add(limit)
		_ = control.SetReadDeadline(end)
		// For a 100 Continue: the deadline of the previous answer may have passed.
		_ = control.SetWriteDeadline(end.Add(answerTimeout))
	}
}

// ReadBody reads the body to its end, where net/http begins to watch for a client that
// hangs up. It returns wire.ErrTooLarge, wire.ErrTooSlow, or wire.ErrMalformed for a
// body that broke off.
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
	control := http.NewResponseController(w) // see LimitBodyTime
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	return body, nil
}
