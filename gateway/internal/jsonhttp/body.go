package jsonhttp

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
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

// Read reads the body of the request, and no more than wire.MaxBody of it. At the end net/http
// begins to detect whether the client hangs up.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	switch {
	case err == io.EOF:
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{}) // see LimitBodyTime
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close") // the rest of the body may still arrive
	}
	return n, err
}
