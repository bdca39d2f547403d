package transport

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
)

// ErrTwoStores is client.ErrTwoStores.
var ErrTwoStores = errors.New("the addresses are of two stores, and a lock of one is none of the other: name the gateways of one store")

// Stores notices that the addresses of one client are of two stores.
type Stores struct {
	mu     sync.Mutex
	id, at string // of the store, and the address of the gateway that has named it; "" before
}

// See notes the store that an answer from an address names, or "". It returns ErrTwoStores if the gateway at another
// address has named another one: at the same address a bucket was lost, or deleted, and created again.
func (s *Stores) See(at, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case id == "" || id == s.id:
		return nil
	case s.id == "" || s.at == at:
		s.id, s.at = id, at
		return nil
	}
	return fmt.Errorf("%s, %s: %w", place(s.at), place(at), ErrTwoStores)
}

// place returns an address without its secrets.
func place(at string) string {
	if parsed, err := url.Parse(at); err == nil {
		return parsed.Scheme + "://" + parsed.Host
	}
	return "?"
}
