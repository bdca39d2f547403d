package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// observe begins to record an answer. It sets the ids of the store and of the request in the answer: the
// client's, if it sent a well-formed one.
func (g *Gateway) observe(w http.ResponseWriter, r *http.Request) *recorder {
	recorder := &recorder{ResponseWriter: w, began: time.Now(), trace: ops.NewTrace(r.Header.Get)}
	recorder.id[0] = recorder.trace.RequestID
	w.Header()[wire.RequestIDHeader] = recorder.id[:]
	if store := g.opened.Load().Store; store != nil {
		recorder.store[0] = store.ID()
	}
	if recorder.store[0] != "" {
		w.Header()[wire.StoreHeader] = recorder.store[:]
	}
	return recorder
}

// observed logs and counts a request under its route, since a path may contain a pool's id,
// which is a credential.
func (g *Gateway) observed(recorder *recorder, r *http.Request) {
	took := time.Since(recorder.began)
	method, route := methodName(r.Method), routeName(r)
	g.metrics.duration.WithLabelValues(method, route, strconv.Itoa(recorder.code)).Observe(took.Seconds())
	recorder.trace.Log(g.log, ops.AccessLevel(recorder.code), "request",
		slog.String("method", method),
		slog.String("route", route),
		slog.Int("status", recorder.code),
		slog.Float64("duration_ms", ops.Milliseconds(took)))
}

func routeName(r *http.Request) string {
	return cmp.Or(r.Pattern, "none")
}

// methodName returns a method that the gateway knows, or "other", since text of a client
// must not get into labels and logs.
func methodName(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// recorder records the status of an answer. It has no method Flush, so that an
// http.ResponseController uses the server's, which reports errors.
type recorder struct {
	http.ResponseWriter
	began time.Time
	code  int // the status that was written, or 0
	trace ops.Trace
	id    [1]string // the value of the header with the request's id
	store [1]string // likewise, with the store's
}

func (w *recorder) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.begin(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(body []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(body)
}

// begin records the status of the answer and sets its deadline.
func (w *recorder) begin(code int) {
	if w.code == 0 {
		w.code = code
		jsonhttp.LimitAnswerTime(w.ResponseWriter)
	}
}

// Unwrap returns the server's ResponseWriter, for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
