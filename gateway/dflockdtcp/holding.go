package dflockdtcp

import (
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// holding is what a session may hold and wait for, by the replies of its calls. It may name
// leases that have ended.
type holding struct {
	busy    bool // a call is in progress
	unknown bool // a call has failed, or a lease is forgotten
	leases  map[string]time.Time
	lines   map[kvslots.Resource]bool // that the session has joined by enqueue
}

func (h *holding) mayBe() bool {
	return h.busy || h.unknown || len(h.leases) > 0 || len(h.lines) > 0
}

// margin is how much longer than its lease a token is remembered: the lease's time begins
// when the store has written it.
const margin = time.Second

// note records the outcome of a call of the session.
func (h *holding) note(call *ops.Call, err error) {
	h.busy = false
	line := kvslots.Resource{Kind: call.Kind, Key: call.Key}
	switch answer := call.Answer.(type) {
	case wire.Grant:
		delete(h.lines, line)
		h.leases = put(h.leases, answer.Token, time.Now().Add(time.Duration(answer.LeaseTTL)*time.Second+margin))
	case wire.NotGranted:
		if delete(h.lines, line); answer.Status == wire.GrantQueued {
			h.lines = put(h.lines, line, true)
		}
	}
	h.unknown = h.unknown || err != nil
}

// forget forgets the leases that have ended, as far as is known: another connection, or
// gateway, may have renewed them.
func (h *holding) forget(now time.Time, also func(token string)) {
	for token, end := range h.leases {
		if now.After(end) {
			h.unknown = true
			delete(h.leases, token)
			also(token)
		}
	}
}

func put[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

// released records that a lease was released, and renewed that it has so much time left, if
// it is one of the session's.
func (s *session) released(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holding.leases, token)
}

func (s *session) renewed(token string, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.holding.leases[token]; ok {
		s.holding.leases[token] = time.Now().Add(left + margin)
	}
}
