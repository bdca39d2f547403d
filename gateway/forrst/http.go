package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const path = "/rpc"

// Mount adds the route.
func (s *Server) Mount(r chi.Router) { r.Post(path, s.rpc) }

// rpc answers POST /rpc. The gateway has asked for its token by then, so whoever
// gets here may administer locks.
func (s *Server) rpc(w http.ResponseWriter, r *http.Request) {
	body, err := jsonhttp.ReadBody(w, r)
	if err != nil {
		if errors.Is(err, wire.ErrTooSlow) {
			w.Header().Set("Connection", "close") // the rest of the body may still come
		}
		answer(w, failed(nil, refused(err)))
		return
	}
	answer(w, s.serve(r.Context(), context.WithoutCancel(r.Context()), body, caller{true, func() bool { return jsonhttp.HungUp(r) }, r.RemoteAddr}))
}

// answer writes a response. A client that is gone does not get it; its call is over
// all the same.
func answer(w http.ResponseWriter, r *response) {
	body := r.encode() // may change the status
	if r.later {
		w.Header().Set(wire.RetryAfterHeader, "1")
	}
	_ = jsonhttp.Answer(w, r.status, json.RawMessage(body))
}

// Prefix is where the server's path begins.
func (s *Server) Prefix() string { return path }

// RenderError answers for the gateway, as the server would.
func (s *Server) RenderError(w http.ResponseWriter, status int, code, text string) {
	answer(w, failed(nil, &Error{
		Code: strings.ToUpper(code), Message: text, status: status,
		Retryable: status == http.StatusTooManyRequests || status >= http.StatusInternalServerError,
	}))
}
