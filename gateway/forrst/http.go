package forrst

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
)

// Mount adds the route of calls, POST /rpc.
func (s *Server) Mount(r chi.Router) { jsonhttp.Mount(r, &s.ops, ops.CallFunction) }

// Prefix returns the beginning of the server's paths.
func (s *Server) Prefix() string { return ops.CallFunction.Path }

// RenderError writes an error of the gateway in the server's format.
func (s *Server) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Reply(w, s.reply(failed(nil, &Error{
		Code: strings.ToUpper(code), Message: text, status: status,
		Retryable: status == http.StatusTooManyRequests || status >= http.StatusInternalServerError,
	})))
}
