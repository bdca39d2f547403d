package ops

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
)

const (
	requestIDLength = 16 // characters
	requestIDBatch  = 256
)

// RequestIDs makes random ids for requests without one. It makes many at once, so that not
// every request allocates. The zero RequestIDs is ready for use.
type RequestIDs struct {
	mu   sync.Mutex
	made string // the rest of the last batch
}

// Next returns a new id.
func (r *RequestIDs) Next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == "" {
		var random [requestIDBatch * requestIDLength / 2]byte
		_, _ = rand.Read(random[:]) // never fails
		r.made = hex.EncodeToString(random[:])
	}
	id := r.made[:requestIDLength]
	r.made = r.made[requestIDLength:]
	return id
}

// TraceOf returns the well-formed ids in a request's headers, and an id of its own for a
// request without one. get returns the value of a header.
func (r *RequestIDs) TraceOf(get func(name string) string) Trace {
	t := TraceOf(get)
	if t.RequestID == "" {
		t.RequestID = r.Next()
	}
	return t
}
