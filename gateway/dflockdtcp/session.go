package dflockdtcp

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// session is the session of a connection. It is pinged while the connection does not use it.
type session struct {
	server *Server
	id     string
	every  time.Duration // between pings
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	client  *conn // the latest; unusedSessions.mu guards it, too
	used    time.Time
	holding holding
	timer   *time.Timer
	over    bool // is being ended
	stopped bool
	pings   sync.WaitGroup // at most one
	ending  sync.Once
}

// newSession returns the session with the given id, which a connection has just created.
func newSession(c *conn, id string) *session {
	idle := cmp.Or(c.server.cfg.IdleTimeout, wire.DefaultIdleTimeout) // it ends after twice that
	s := &session{server: c.server, id: id, client: c, every: idle / 2, used: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.every, s.keep)
	return s
}

func (s *session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding.busy = true
}

// ended records the outcome of a call of the session. Of a call that has succeeded it must be
// called before the client learns of that.
func (s *session) ended(call *ops.Call, err error) {
	s.mu.Lock()
	s.used = time.Now()
	s.holding.note(call, err)
	s.mu.Unlock()
	if answer, ok := call.Answer.(wire.Grant); ok && err == nil {
		s.server.kept.add(answer.Token, s)
	}
}

// mayHold reports whether the session may hold a lease, or wait for one, or is being ended.
func (s *session) mayHold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.holding.mayBe()
}

// endsIfHolding reports whether the session may hold a lease, or wait for one. The caller then
// has to end it.
func (s *session) endsIfHolding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = s.over || s.holding.mayBe()
	return s.over
}

// keep is called every s.every while the session has a connection, or holds something for
// one that has ended. It pings the session unless it was used in that time, and closes the
// connection of a session that has ended.
func (s *session) keep() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.pings.Add(1)
	idle := time.Since(s.used) >= s.every
	client := s.client
	s.mu.Unlock()
	defer s.pings.Done()
	if s.server.unused.remove(s) || s.server.kept.over(s) {
		s.server.ends.run(s.end) // it waits for this call
		return
	}
	if s.server.kept == nil {
		s.mu.Lock()
		s.holding.forget(time.Now(), func(string) {})
		s.mu.Unlock()
	}
	if idle {
		call := &ops.Call{Operation: ops.PingSession, Request: client, Params: wire.Params{Session: s.id}}
		if err := s.server.service.Do(s.ctx, s.ctx, call, func() {}); errors.Is(err, kvslots.ErrSessionGone) {
			client.raw.Close()
		}
	}
	s.next(s.every)
}

func (s *session) next(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.timer.Reset(pause)
	}
}

func (s *session) stop() {
	s.mu.Lock()
	s.stopped = true
	s.timer.Stop()
	s.mu.Unlock()
	s.cancel()
	s.pings.Wait()
}

// end ends the session, and with it all that it holds and waits for. It returns when the
// session has ended. It may be called more than once.
func (s *session) end() {
	s.ending.Do(func() {
		s.mu.Lock()
		s.over = true
		client := s.client
		s.mu.Unlock()
		call := &ops.Call{Operation: ops.EndSession, Request: client, Params: wire.Params{Session: s.id}}
		err := s.server.service.Do(context.Background(), context.Background(), call, func() {})
		if err != nil && !errors.Is(err, kvslots.ErrSessionGone) {
			s.server.log.Warn("the session of a closed connection could not be ended; it ends by itself", "error", err)
		}
		s.stop()
	})
}
