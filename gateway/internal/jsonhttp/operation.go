package jsonhttp

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Operations performs operations over HTTP.
type Operations struct {
	Service *ops.Service

	// Log receives server errors, without secrets.
	Log zerolog.Logger
}

// Mount adds the routes of operations. A path that can be read also has the method HEAD.
func (o *Operations) Mount(r chi.Router, all ...*ops.Operation) {
	for _, op := range all {
		r.Method(op.Method, op.Path, o.handle(op))
		if op.Method == http.MethodGet {
			r.Head(op.Path, o.handle(op))
		}
	}
}

// handle returns a handler that performs an operation. Its stack frames are small, since a
// gateway has one stack for each waiting client.
func (o *Operations) handle(op *ops.Operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{Operations: o, w: w, r: r, call: ops.Call{Operation: op, Remote: r.RemoteAddr, Arrived: time.Now()}}
		if err := x.perform(); err != nil {
			x.refuse(err)
		}
	}
}

// exchange is a request and its answer. It is the wire.Source of the request.
type exchange struct {
	*Operations
	w    http.ResponseWriter
	r    *http.Request
	call ops.Call
}

func (x *exchange) perform() error {
	if err := x.call.Route.Read(x, &x.call.Params); err != nil {
		return err
	}
	// The store bounds the time of operations that continue after the client has hung up.
	return x.Service.Do(x.r.Context(), context.Background(), &x.call, x.deliver)
}

// deliver answers the call. It takes back a grant to a client that has hung up, since no
// client knows the grant's id or token.
func (x *exchange) deliver() {
	hungUp := x.call.Granted() && HungUp(x.r)
	if !hungUp && x.answer() == nil || !x.call.Granted() {
		return
	}
	if err := x.Service.TakeBack(context.Background(), &x.call); err != nil {
		traceOf(x.w).Log(x.Log.Warn()).Err(err).Msg("a grant to a client that hung up could not be taken back; it ends by itself")
	}
	if hungUp { // for the log and the metrics
		x.refuse(context.Canceled)
	}
}

// answer answers 200, or 204 without a body.
func (x *exchange) answer() error {
	if x.call.Answer == nil {
		return Done(x.w)
	}
	if x.call.Lease != nil {
		x.w.Header().Set(wire.WaitedHeader, wire.Waited(x.call.Lease, x.call.Arrived))
	}
	return Answer(x.w, http.StatusOK, x.call.Answer)
}

// Param returns a parameter of the path, or of the query if the path has none.
func (x *exchange) Param(name string) (string, bool) {
	if !strings.Contains(x.call.Path, "{") {
		return x.r.URL.Query().Get(name), true
	}
	return pathValue(x.r, name), true
}

func (x *exchange) Header(name string) []string { return x.r.Header.Values(name) }

func (x *exchange) Body() ([]byte, error) { return ReadBody(x.w, x.r) }

func (x *exchange) refuse(err error) {
	Refuse(x.w, x.Service.Refuse(err, x.call.StatusOf, x.Log, traceOf(x.w)))
}

// pathValue returns a decoded segment of the path. chi matches the encoded path, and
// returns encoded segments, if the client has encoded the path in another way than net/url
// would. Otherwise chi matches the decoded path, whose segments must not be decoded again.
func pathValue(r *http.Request, name string) string {
	text := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return text
	}
	decoded, err := url.PathUnescape(text)
	if err != nil { // net/http has decoded the path before
		return text
	}
	return decoded
}
