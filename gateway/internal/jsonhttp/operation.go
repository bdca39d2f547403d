package jsonhttp

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Mount adds the routes of operations that a service performs. A path that can be read also
// has the method HEAD.
func Mount(r chi.Router, s *ops.Service, all ...*ops.Operation) {
	for _, op := range all {
		r.Method(op.Method, op.Path, handle(s, op))
		if op.Method == http.MethodGet {
			r.Head(op.Path, handle(s, op))
		}
	}
}

// handle returns a handler that performs an operation.
func handle(s *ops.Service, op *ops.Operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{service: s, w: w, r: r, body: http.MaxBytesReader(w, r.Body, wire.MaxBody)}
		x.call.Operation, x.call.Request, x.call.Arrived = op, x, time.Now()
		if err := x.perform(); err != nil {
			x.refuse(err)
		}
	}
}

// exchange is a request and its answer. It is the ops.Request of the call, and reads the body.
type exchange struct {
	service *ops.Service
	w       http.ResponseWriter
	r       *http.Request
	body    io.Reader // limited
	call    ops.Call
}

func (x *exchange) perform() error {
	if err := x.receive(); err != nil {
		return err
	}
	// A gateway that was stopped for a while finds requests whose clients have gone. They may
	// have taken a slot or a place in a line since, which a late request must not end.
	if x.call.Cancels() && x.HungUp() {
		return context.Canceled
	}
	// The store bounds the time of operations that continue after the client has hung up.
	return x.service.Do(x.r.Context(), context.Background(), &x.call, x.deliver)
}

func (x *exchange) receive() error {
	from := SourceOf(x.r)
	from.Stream = x
	return x.call.Route.Read(&from, &x.call.Params)
}

// SourceOf returns a request for a wire.Route to read, without its body.
func SourceOf(r *http.Request) wire.Source {
	return wire.Source{HTTP: true, Param: param(r, 0), Position: param(r, 1), Query: r.URL.RawQuery, Header: r.Header}
}

// deliver answers the call. It takes back a grant to a client that has hung up, since no
// client knows the grant's id or token.
func (x *exchange) deliver() {
	hungUp := x.call.Granted() && x.HungUp()
	if !hungUp && x.answer() == nil || !x.call.Granted() {
		return
	}
	x.service.TakeBack(context.Background(), &x.call)
	if hungUp { // for the log and the metrics
		x.refuse(context.Canceled)
	}
}

// answer answers 204 to a call whose answer is empty.
func (x *exchange) answer() error {
	reply := x.service.Reply(&x.call)
	if reply.Body == nil {
		return Done(x.w)
	}
	return Reply(x.w, &reply)
}

func (x *exchange) refuse(err error) {
	_ = Reply(x.w, x.service.RefuseCall(err, &x.call))
}

func (x *exchange) Remote() string { return x.r.RemoteAddr }

func (x *exchange) Origins() iter.Seq[string] {
	return func(yield func(string) bool) { yield(ops.Origin(x.r.RemoteAddr)) }
}

// Trace returns the ids of the request. The request id is in the header of the answer: the
// gateway makes one for a client that has sent none.
func (x *exchange) Trace() ops.Trace {
	t := ops.TraceOf(x.r.Header.Get)
	t.RequestID = x.w.Header().Get(wire.RequestIDHeader)
	return t
}

func (x *exchange) HungUp() bool { return HungUp(x.r) }

// param returns a parameter of the path, decoded, or "" if the path has fewer.
// chi matches the encoded path, and returns encoded segments, if the client has encoded the
// path in another way than net/url would. Otherwise chi matches the decoded path, whose
// segments must not be decoded again.
func param(r *http.Request, n int) string {
	inPath := chi.RouteContext(r.Context()).URLParams.Values
	if n >= len(inPath) {
		return ""
	}
	text := inPath[n]
	if r.URL.RawPath == "" {
		return text
	}
	decoded, err := url.PathUnescape(text)
	if err != nil { // net/http has decoded the path before
		return text
	}
	return decoded
}
