package gateway

import (
	"log/slog"
	"net/http"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// recoverPanic turns a panic into a 500 and a log line with the stack. It must be called
// by defer.
func (g *Gateway) recoverPanic(w *recorder, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler { // not a bug: handlers cut connections by it
		panic(reason)
	}
	w.trace.Log(g.log, slog.LevelError, ops.Panicked, ops.PanicAttrs(reason)...)
	if w.code != 0 {
		panic(http.ErrAbortHandler) // a part of the answer may have been sent
	}
	g.fail(w, r, wire.Internal)
}
