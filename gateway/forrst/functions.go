package forrst

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Call is a call of a function in this process.
type Call struct {
	Function  string
	Version   string          // "" when the caller did not say
	Arguments json.RawMessage // a JSON object
	Lock      *Lock           // nil when the call holds none
}

// Lock is the lock that a call holds.
type Lock struct {
	FullKey   string
	Owner     string
	Fence     uint64    // grows with each acquisition: hand it to what the lock protects
	ExpiresAt time.Time // the lock is never renewed; time.Until is safe from steps of the clock
}

// Func is a function. What it returns is encoded as JSON. An *Error is passed on to
// the caller as it is; of any other the caller learns only that there was one. ctx
// ends when the call's time is over, and not when its client hangs up.
type Func func(ctx context.Context, call Call) (result any, err error)

// Functions are functions of this process, by name. The zero value is empty; its
// methods are safe for concurrent use.
type Functions struct {
	mu  sync.RWMutex
	all map[string]Func
}

var defaultFunctions = &Functions{}

// Handle serves a function in this process, at every Server whose Config names no
// others. See Functions.Handle.
func Handle(name string, f Func) { defaultFunctions.Handle(name, f) }

// Handle adds a function, in whose place no service on NATS is called any more. It
// panics if the name is no function's, is one of those that Forrst reserves, or is
// taken.
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

// names are sorted.
func (f *Functions) names() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Sorted(maps.Keys(f.all))
}

// isReserved reports whether a function of that name can only be the server's own.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "urn:cline:forrst:") || strings.HasPrefix(name, "forrst.")
}
