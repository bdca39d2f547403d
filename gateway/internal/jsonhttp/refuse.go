// Package jsonhttp performs operations over HTTP with JSON: it reads bodies of bounded
// size and time, and writes compact answers, and errors according to the table of package
// wire.
package jsonhttp

import (
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func (o *Operations) refuse(w http.ResponseWriter, err error, statusOf wire.Lookup) {
	Refuse(w, o.Service.Refuse(err, statusOf, o.Log, traceOf(w)))
}

// traceOf returns the id of a request, which is in the header of the answer: the gateway
// makes one for a client that has sent none.
func traceOf(w http.ResponseWriter) ops.Trace {
	return ops.Trace{RequestID: w.Header().Get(wire.RequestIDHeader)}
}

// Refuse answers with a status other than success.
func Refuse(w http.ResponseWriter, status wire.Status) {
	status.Headers(w.Header().Set)
	_ = Answer(w, status.Code, status.Failure())
}
