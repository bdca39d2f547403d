package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
)

const (
	requestIDLength = 16 // characters
	requestIDBatch  = 256
)

// requestIDs makes random ids for requests without one. It makes many at once, so that not
// every request allocates.
type requestIDs struct {
	mu   sync.Mutex
	made string // the rest of the last batch
}

func (r *requestIDs) next() string {
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
