package gateway

import (
	"fmt"
	"net/http"
	"runtime"

	"github.com/kvslots/kvslots/gateway/internal/stack"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// recoverPanic turns a panic into a 500 and a log line with the stack. It is to be
// deferred.
func (g *Gateway) recoverPanic(w *recorder, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler { // not a mistake: the way to cut a connection
		panic(reason)
	}
	w.trace.Log(g.log.Error()).
		Str("panic", describePanic(reason)).
		Str("stack", stack.Lines()).
		Msg("handler panicked")
	if w.status() != 0 {
		panic(http.ErrAbortHandler) // half an answer is out
	}
	g.fail(w, r, wire.Internal)
}

// describePanic names the panic without what a request may have put into it.
func describePanic(reason any) string {
	if err, ok := reason.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", reason)
}
