package forrst

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const path = "/rpc"

// Mount adds the route of calls, POST /rpc.
func (s *Server) Mount(r chi.Router) { r.Post(path, s.rpc) }

// rpc answers POST /rpc. The gateway has checked its token, so that the caller may use
// force-release.
func (s *Server) rpc(w http.ResponseWriter, r *http.Request) {
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		s.writeResponse(w, failed(nil, transportError(err)))
		return
	}
	from := caller{
		admin: true, hungUp: func() bool { return jsonhttp.HungUp(r) }, remote: r.RemoteAddr, trace: traceOf(w, r),
	}
	s.writeResponse(w, s.serve(r.Context(), context.WithoutCancel(r.Context()), body, from))
}

// traceOf returns the ids of a request. The request id is in the header of the answer: the
// gateway makes one for a client that has sent none.
func traceOf(w http.ResponseWriter, r *http.Request) ops.Trace {
	t := ops.TraceOf(r.Header.Get)
	t.RequestID = w.Header().Get(wire.RequestIDHeader)
	return t
}

// writeResponse writes a response. It ignores errors, because the call is over even if
// its client is gone.
func (s *Server) writeResponse(w http.ResponseWriter, r *response) {
	body := s.encode(r) // may change the status
	if r.retryAfter != 0 {
		w.Header().Set(wire.RetryAfterHeader, strconv.Itoa(r.retryAfter))
	}
	_ = jsonhttp.Send(w, r.status, body)
}

// Prefix returns the beginning of the server's paths.
func (s *Server) Prefix() string { return path }

// RenderError writes an error of the gateway in the server's format.
func (s *Server) RenderError(w http.ResponseWriter, status int, code, text string) {
	s.writeResponse(w, failed(nil, &Error{
		Code: strings.ToUpper(code), Message: text, status: status,
		Retryable: status == http.StatusTooManyRequests || status >= http.StatusInternalServerError,
	}))
}
