package forrst

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Call is a call of a function. Its JSON is what functions of other processes receive.
type Call struct {
	Function  string          `json:"function"`
	Version   string          `json:"version,omitempty"` // "" if the caller did not specify one
	Arguments json.RawMessage `json:"arguments"`         // a JSON object
	Lock      *Lock           `json:"-"`                 // nil if the call has no lock

	RequestID   string `json:"-"` // of the request, for logs; may be ""
	Traceparent string `json:"-"` // W3C Trace Context; "" if the caller sent none
}

// Lock is the lock of a call.
type Lock struct {
	FullKey   string
	Owner     string
	Fence     uint64    // grows with each grant; pass it to the resource that the lock protects
	ExpiresAt time.Time // with a monotonic reading: use time.Until; the lock is never renewed
}

// Func is a function of this process. Its result is encoded as JSON. An *Error is
// passed on to the caller; for any other error the caller learns only that the function
// failed. ctx ends when the call's time is over, but not when its client hangs up.
type Func func(ctx context.Context, call Call) (result any, err error)

// Functions is a set of functions of this process. The zero value is empty. Its methods
// are safe for concurrent use.
type Functions struct {
	mu  sync.RWMutex
	all map[string]Func
}

var defaultFunctions = &Functions{}

// Handle registers a function with every Server whose Config.Functions is nil. See
// Functions.Handle.
func Handle(name string, f Func) { defaultFunctions.Handle(name, f) }

// Handle registers a function, which is then called instead of a NATS service of the
// same name. It panics if the name is invalid, reserved by Forrst or already
// registered.
func (f *Functions) Handle(name string, function Func) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch _, taken := f.all[name]; {
	case function == nil:
		panic("forrst: nil function")
	case !isFunction(name):
		panic("forrst: a function's name must be " + functionsAllowed)
	case isReserved(name):
		panic("forrst: " + name + " is reserved")
	case taken:
		panic(fmt.Sprintf("forrst: function %s is there already", name))
	}
	if f.all == nil {
		f.all = map[string]Func{}
	}
	f.all[name] = function
}

func (f *Functions) find(name string) Func {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.all[name]
}

// isReserved reports whether only a built-in function can have that name.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "urn:cline:forrst:") || strings.HasPrefix(name, "forrst.")
}
