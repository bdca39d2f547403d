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
	conn   *conn
	id     string
	every  time.Duration // between pings
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	used    time.Time
	timer   *time.Timer
	stopped bool
	pings   sync.WaitGroup // at most one
	ending  sync.Once
}

// newSession returns the session with the given id, which a connection has just created.
func newSession(c *conn, id string) *session {
	idle := cmp.Or(c.server.cfg.IdleTimeout, wire.DefaultIdleTimeout) // it ends after twice that
	s := &session{conn: c, id: id, every: idle / 2, used: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(s.every, s.keep)
	return s
}

func (s *session) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
}

// keep is called every s.every. It pings the session unless it was used in that time, and
// closes the connection of a session that has ended.
func (s *session) keep() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.pings.Add(1)
	idle := time.Since(s.used) >= s.every
	s.mu.Unlock()
	defer s.pings.Done()
	if idle {
		call := &ops.Call{Operation: ops.PingSession, Request: s.conn, Params: wire.Params{Session: s.id}}
		if err := s.conn.server.service.Do(s.ctx, s.ctx, call, func() {}); errors.Is(err, kvslots.ErrSessionGone) {
			s.conn.raw.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.timer.Reset(s.every)
	}
}

// end ends the session, and with it all that it holds and waits for. It returns when the
// session has ended. It may be called more than once.
func (s *session) end() {
	s.ending.Do(func() {
		call := &ops.Call{Operation: ops.EndSession, Request: s.conn, Params: wire.Params{Session: s.id}}
		err := s.conn.server.service.Do(context.Background(), context.Background(), call, func() {})
		if err != nil && !errors.Is(err, kvslots.ErrSessionGone) {
			s.conn.server.log.Warn("the session of a closed connection could not be ended; it ends by itself", "error", err)
		}
		s.mu.Lock()
		s.stopped = true
		s.timer.Stop()
		s.mu.Unlock()
		s.cancel()
		s.pings.Wait()
	})
}
