package jsonhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// writeTimeout bounds how long a client may take to read an answer; the
// answers are small, so only one that has stopped reading gets near it.
const writeTimeout = 10 * time.Second

// Values of headers, made once.
var (
	typeJSON = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// Answer writes v as the JSON body and hands it to the network. An error
// means that the client will not see the answer, or not all of it.
func Answer(w http.ResponseWriter, code int, v any) error {
	body, err := wire.Encode(v)
	if err != nil {
		return err
	}
	header := w.Header()
	header["Content-Type"] = typeJSON
	// Without a length the flush would make it a chunked answer, whose end only
	// comes after it.
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return send(w, code, body)
}

// Done answers 204, without a body.
func Done(w http.ResponseWriter) error { return send(w, http.StatusNoContent, nil) }

func send(w http.ResponseWriter, code int, body []byte) error {
	w.Header()["Cache-Control"] = noStore
	control := http.NewResponseController(w)
	// Not every writer has a deadline to set; those of a server do.
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil {
		return err
	}
	return control.Flush()
}

// Fail answers {"error": text}.
func Fail(w http.ResponseWriter, code int, text string) error {
	return Answer(w, code, wire.Failure{Error: text})
}
