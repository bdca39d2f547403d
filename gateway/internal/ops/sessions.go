package ops

import (
	"cmp"
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Sessions is the part of a *kvslots.Store that operations on sessions, locks and
// semaphores use. Each method returns within a bounded time after its wait, even if its
// context does not end.
type Sessions interface {
	kvslots.Operator
	CreateSession(ctx context.Context, opts ...kvslots.Option) (id string, idle time.Duration, err error)
	Ping(ctx context.Context, session string) error
	EndSession(ctx context.Context, session string) error
	Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error)
	Enqueue(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (g kvslots.Grant, acquired bool, err error)
	Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error)
	AbandonGrant(ctx context.Context, session string, r kvslots.Resource, g kvslots.Grant) error
	Release(ctx context.Context, session string, r kvslots.Resource, token string) error
	RenewGrant(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (time.Duration, error)
	GrantHolder(ctx context.Context, session string, r kvslots.Resource, token string) (kvslots.HolderStats, error)
	StatsPage(ctx context.Context, page kvslots.PoolPage) (kvslots.Stats, error)
}

// The operations on sessions (gateway/README.md, "The dflockd API: /v1", "Statistics").
// They do not wait for their session's turn. EndSession refuses the calls that wait for it.
var (
	CreateSession = &Operation{Route: wire.CreateSession, refusedWhileDraining: true, perform: createSession}
	PingSession   = &Operation{Route: wire.PingSession, endsWithClient: true, perform: pingSession}
	EndSession    = &Operation{Route: wire.EndSession, perform: endSession}
	Stats         = &Operation{Route: wire.ReadStats, endsWithClient: true, perform: stats}
)

// OfSessions are the operations on sessions. Stats, which concern all of them, exist over
// HTTP only.
var OfSessions = []*Operation{CreateSession, PingSession, EndSession}

// createSession creates a session that ends after twice the idle timeout.
func createSession(ctx context.Context, s *Service, call *Call) (err error) {
	idle := cmp.Or(min(call.IdleTimeout, cmp.Or(s.MaxIdleTimeout, wire.DefaultMaxIdleTimeout)), s.IdleTimeout, wire.DefaultIdleTimeout)
	err = call.fromOrigin(kvslots.ErrMaxSessionsPerOrigin, func(origin string) (err error) {
		call.Session, _, err = s.Sessions.CreateSession(ctx, kvslots.WithIdle(2*idle), kvslots.WithOrigin(origin), kvslots.WithLabel(call.Label))
		return err
	})
	if err != nil {
		return err
	}
	call.Answer, call.undo = wire.NewSession(call.Session, idle), endSession
	return nil
}

func pingSession(ctx context.Context, s *Service, call *Call) error {
	return s.Sessions.Ping(ctx, call.Session)
}

func endSession(ctx context.Context, s *Service, call *Call) error {
	err := s.Sessions.EndSession(ctx, call.Session)
	if err == nil {
		s.Turns.End(call.Session)
	}
	return err
}

func stats(ctx context.Context, s *Service, call *Call) error {
	page := kvslots.PoolPage{After: call.PoolsAfter, Max: wire.MaxPools}
	return s.read(ctx, call, page, func(ctx context.Context) (any, error) {
		stats, err := s.Sessions.StatsPage(ctx, page)
		if err != nil {
			return nil, err
		}
		clients := 0
		if s.Clients != nil {
			clients = s.Clients()
		}
		return wire.NewStats(stats, clients), nil
	})
}
