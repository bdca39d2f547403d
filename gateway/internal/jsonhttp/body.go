package jsonhttp

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// LimitBodyTime sets the deadline of a request's body, even if the handler does not read
// it: net/http then reads it, to reach the next request. The server's own ReadTimeout
// continues after the body, and would end a waiting borrow.
func LimitBodyTime(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.Body != http.NoBody {
		control, end := http.NewResponseController(w), time.Now().Add(limit)
		_ = control.SetReadDeadline(end)
		if r.Header.Get("Expect") != "" { // a 100 Continue is written; the deadline of the previous answer may have passed
			_ = control.SetWriteDeadline(end.Add(answerTimeout))
		}
	}
}

// readBody reads the body to its end, after which net/http begins to detect whether the
// client hangs up. It returns wire.ErrTooLarge, wire.ErrTooSlow, or wire.ErrMalformed for
// a truncated body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return nil, wire.ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close") // the rest of the body may still arrive
		return nil, wire.ErrTooSlow
	case err != nil:
		return nil, wire.ErrMalformed
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // see LimitBodyTime
	return body, nil
}
