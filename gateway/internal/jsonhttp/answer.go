package jsonhttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// answerTimeout bounds the time in which a client must read an answer.
const answerTimeout = 10 * time.Second

var typeJSON = []string{"application/json"}

// LimitAnswerTime sets the deadline of the answer, which is about to be written. The
// server's own WriteTimeout begins with the request, and would end a waiting borrow.
func LimitAnswerTime(w http.ResponseWriter) {
	// It fails only for the ResponseWriters of tests.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// Answer writes v as the JSON body and flushes it. After an error the client will not
// receive the answer, or not all of it.
func Answer(w http.ResponseWriter, code int, v any) error {
	body, err := wire.Encode(v)
	if err != nil {
		return err
	}
	return Send(w, code, body)
}

func Send(w http.ResponseWriter, code int, body []byte) error {
	header := w.Header()
	header["Content-Type"] = typeJSON
	// Without a length, flushing would begin a chunked answer, whose end is written later.
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return send(w, code, body)
}

// Done answers 204, without a body.
func Done(w http.ResponseWriter) error { return send(w, http.StatusNoContent, nil) }

func send(w http.ResponseWriter, code int, body []byte) error {
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

func Refuse(w http.ResponseWriter, status wire.Status) {
	_ = Reply(w, &ops.Reply{Status: status, Body: status.Failure()})
}

func Reply(w http.ResponseWriter, reply *ops.Reply) error {
	reply.Headers(w.Header().Set)
	if body, encoded := reply.Body.(json.RawMessage); encoded {
		return Send(w, reply.Code, body)
	}
	return Answer(w, reply.Code, reply.Body)
}
