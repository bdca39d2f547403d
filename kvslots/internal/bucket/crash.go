package bucket

import (
	"fmt"
	"runtime"
)

// crash ends the process if the peer panics. The peer's state is then wrong, and a caller
// that recovers, as net/http does, would leave all other callers with it. crash logs where
// it happened: the runtime's own dump would print ids, which are secrets, as arguments.
func (b *Bucket) crash() {
	reason := recover()
	if reason == nil {
		return
	}
	var at []string
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		at = append(at, fmt.Sprintf("%s:%d", f.Function, f.Line))
	}
	text := fmt.Sprintf("%T", reason) // a reason's own text may contain parts of a request
	if err, ok := reason.(runtime.Error); ok {
		text = err.Error()
	}
	b.log.Error().Str("panic", text).Strs("stack", at).Msg("the process ends: the core has panicked, which is a bug")
	go panic(text)
	select {} // no caller may go on
}
