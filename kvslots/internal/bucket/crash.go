package bucket

import (
	"fmt"
	"runtime"
)

// crash ends the process if the peer panics. The peer's state is then wrong, and a caller
// that recovers, as net/http does, would leave it to all other callers. crash logs where
// the panic happened: the runtime's own dump would print ids, which are secrets, among the
// arguments.
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
	b.log.Error("the process ends: the core has panicked, which is a bug", "panic", text, "stack", at)
	go panic(text)
	select {} // do not return to the caller
}
