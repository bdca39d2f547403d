package dflockdtcp

import (
	"context"
	"sync"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// keptLeases are the sessions whose leases outlive their connections, by the tokens: see
// Config.KeepOnDisconnect. Such a session ends when its connection and all its leases have. A
// nil *keptLeases keeps none.
type keptLeases struct {
	mu       sync.Mutex
	of       map[string]*session
	orphaned map[*session]bool // their connections have ended
	stopped  bool
}

func newKeptLeases() *keptLeases {
	return &keptLeases{of: map[string]*session{}, orphaned: map[*session]bool{}}
}

func (k *keptLeases) add(token string, s *session) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[token] = s
}

// holder returns the session that holds a lease, or own if that is not known.
func (k *keptLeases) holder(token string, own *session) *session {
	if k == nil {
		return own
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.of[token]; s != nil {
		return s
	}
	return own
}

// keep is called when the connection of a session has ended. It makes the session leave its
// lines, and reports whether the session holds something that stays.
func (k *keptLeases) keep(s *session) bool {
	if k == nil {
		return false
	}
	s.mu.Lock()
	lines := s.holding.lines
	s.holding.lines = nil
	s.mu.Unlock()
	for line := range lines {
		s.leave(line)
	}
	k.mu.Lock()
	if k.stopped {
		k.mu.Unlock()
		s.stop()
		return true
	}
	k.orphaned[s] = true
	k.mu.Unlock()
	return !k.over(s)
}

// leave takes a session that has enqueued out of the line.
func (s *session) leave(line kvslots.Resource) {
	call := &ops.Call{Operation: ops.OfResource(line.Kind, subjects.Wait), Request: s.client, Arrived: time.Now()}
	call.Params = wire.Params{Session: s.id, Key: line.Key, Kind: line.Kind}
	_ = s.server.service.Do(context.Background(), context.Background(), call, func() {
		if call.Granted() {
			s.server.service.Withdraw(context.Background(), call)
		}
	})
}

// over reports whether the connection of a session and all its leases have ended. It then
// forgets the session.
func (k *keptLeases) over(s *session) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding.forget(time.Now(), func(token string) { delete(k.of, token) })
	if !k.orphaned[s] || len(s.holding.leases) > 0 || k.stopped {
		return false
	}
	delete(k.orphaned, s)
	return true
}

func (k *keptLeases) forget(token string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, token)
}

// stop ends the pings of the sessions without a connection. They live for another idle time.
func (k *keptLeases) stop() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.stopped = true
	orphaned := k.orphaned
	k.orphaned = nil
	k.mu.Unlock()
	for s := range orphaned {
		s.stop()
	}
}
