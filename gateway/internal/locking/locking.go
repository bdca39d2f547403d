// Package locking is what the doors to sessions, locks and semaphores have in
// common: which operations there are, what each makes of its body, in whose turn
// it is served, and what it answers. A door only knows where the session and the
// key stand in its requests, and how to bring the answer to its client.
package locking

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// carryOutTimeout bounds what is done whether or not the client stays to hear
// of it.
const carryOutTimeout = 30 * time.Second

// Sessions is what the doors do with sessions; *kvslots.Store does it.
type Sessions interface {
	CreateSession(ctx context.Context, idle time.Duration, origin string) (id string, err error)
	Ping(ctx context.Context, session string) error
	EndSession(ctx context.Context, session string) error
	Acquire(ctx context.Context, session string, r kvslots.Resource, ttl, wait time.Duration) (kvslots.Grant, error)
	Enqueue(ctx context.Context, session string, r kvslots.Resource, ttl time.Duration) (g kvslots.Grant, acquired bool, err error)
	Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error)
	Release(ctx context.Context, session string, r kvslots.Resource, token string) error
	Extend(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (time.Duration, error)
}

// Lending is a gateway's: see *gateway.Lending.
type Lending interface {
	Begin(ctx context.Context) (borrow context.Context, end func())
}

// Turns are a gateway's: see *gateway.Turns.
type Turns interface {
	Take(ctx context.Context, session string) (done func(), err error)
	End(session string)
}

// Desk serves sessions, and the requests of each one after the other.
type Desk struct {
	Sessions Sessions
	Lending  Lending
	Turns    Turns

	DefaultLeaseTTL time.Duration // 0 means wire.DefaultLeaseTTL
	IdleTimeout     time.Duration // 0 means wire.DefaultIdleTimeout
}

// WithDefaults fills in what was left out.
func (d Desk) WithDefaults() *Desk {
	if d.DefaultLeaseTTL == 0 {
		d.DefaultLeaseTTL = wire.DefaultLeaseTTL
	}
	if d.IdleTimeout == 0 {
		d.IdleTimeout = wire.DefaultIdleTimeout
	}
	return &d
}

// Create creates a session for a client from that origin, as long as slots are
// lent at all. It ends at twice the idle timeout (gateway/README.md, "The dflockd API: /v1").
func (d *Desk) Create(ctx context.Context, origin string) (wire.Session, error) {
	ctx, end := d.Lending.Begin(ctx)
	defer end()
	if ctx.Err() != nil {
		return wire.Session{}, context.Cause(ctx)
	}
	id, err := d.Sessions.CreateSession(ctx, 2*d.IdleTimeout, origin)
	if err != nil {
		return wire.Session{}, err
	}
	return wire.NewSession(id, d.IdleTimeout), nil
}

// Ping keeps a session alive; it waits for no turn.
func (d *Desk) Ping(ctx context.Context, session string) error {
	if !wire.IsSessionID(session) {
		return kvslots.ErrSessionGone
	}
	return d.Sessions.Ping(ctx, session)
}

// End ends a session; it waits for no turn, and those who do are sent away.
func (d *Desk) End(ctx context.Context, session string) error {
	if !wire.IsSessionID(session) {
		return kvslots.ErrSessionGone
	}
	ctx, cancel := context.WithTimeout(ctx, carryOutTimeout)
	defer cancel()
	if err := d.Sessions.EndSession(ctx, session); err != nil {
		return err
	}
	d.Turns.End(session)
	return nil
}

// Do serves a call in its session's turn, and calls hand with the outcome while
// it lasts, so that nothing of the session's happens in between.
//
// ctx ends when nobody waits for the answer any more, and with it the wait for
// the turn, for a lock and for a place in line. What has no reason to stop
// half-way because of that, such as a release, goes on under lasting.
func (d *Desk) Do(ctx, lasting context.Context, call Call, hand func(Outcome)) error {
	if !wire.IsSessionID(call.Session) {
		return kvslots.ErrSessionGone
	}
	if call.Operation.Lends {
		lent, end := d.Lending.Begin(ctx)
		defer end()
		if err := context.Cause(lent); errors.Is(err, wire.ErrDraining) {
			return err
		}
		ctx = lent
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(lasting, carryOutTimeout)
		defer cancel()
	}
	done, err := d.turn(ctx, lasting, call)
	if err != nil {
		return err
	}
	defer done()
	outcome, err := call.Operation.do(ctx, d, call)
	if err != nil {
		return err
	}
	hand(outcome)
	return nil
}

// turn waits for the session's turn. One who gives up a wait before its turn has
// come is to leave the line all the same.
func (d *Desk) turn(ctx, lasting context.Context, call Call) (done func(), err error) {
	done, err = d.Turns.Take(ctx, call.Session)
	if err == nil || !call.Operation.leaves || errors.Is(err, kvslots.ErrSessionGone) || errors.Is(err, kvslots.ErrPlaceKept) {
		return done, err
	}
	lasting, cancel := context.WithTimeout(lasting, carryOutTimeout)
	defer cancel()
	return d.Turns.Take(lasting, call.Session)
}

// TakeBack releases what was granted to a call whose client is gone: nobody
// knows the token.
func (d *Desk) TakeBack(ctx context.Context, call Call, grant *kvslots.Grant) error {
	ctx, cancel := context.WithTimeout(ctx, carryOutTimeout)
	defer cancel()
	return d.Sessions.Release(ctx, call.Session, call.Resource, grant.Token)
}
