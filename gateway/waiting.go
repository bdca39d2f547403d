package gateway

import (
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Waiting returns the handler of a process that has no store yet. It answers 200 to
// /health, 503 with the reason to /ready, and 502 to every other path, so that clients
// retry.
func Waiting(reason string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_ = jsonhttp.Answer(w, http.StatusOK, status{Status: "ok"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		_ = jsonhttp.Answer(w, http.StatusServiceUnavailable, status{Status: "unavailable", Reason: reason})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		statusOf := wire.StatusOf
		if isBelow(routedPath(r), "/v1") {
			statusOf = wire.CodeOf
		}
		jsonhttp.Refuse(w, statusOf(kvslots.ErrUnavailable))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		jsonhttp.LimitBodyTime(w, r, bodyTimeout)
		jsonhttp.LimitAnswerTime(w)
		mux.ServeHTTP(w, r)
	})
}
