package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// turnTimeout bounds the wait for a turn of an operation that does not wait in line.
const turnTimeout = 30 * time.Second

// Service executes operations. If Pools, Sessions, Owned or Functions is nil, the operations
// on them must not be called.
type Service struct {
	Operator  kvslots.Operator // a Pools or a Sessions
	Pools     Pools
	Sessions  Sessions
	Owned     OwnedLocks
	Functions Functions
	Lending   *Lending
	Turns     *Turns       // used with Sessions
	Events    *Events      // counts outcomes; may be nil
	Log       *slog.Logger // receives server errors, without secrets

	SessionTimes
	Clients func() int // number of connected clients without a session; nil means 0
}

// SessionTimes are the times of sessions, and of the leases that they hold. All
// transports of a gateway must have the same ones.
type SessionTimes struct {
	// DefaultLeaseTTL is the lease of a request without a ttl; 0 means
	// wire.DefaultLeaseTTL.
	DefaultLeaseTTL time.Duration

	// IdleTimeout is how often clients must ping their sessions. A session ends after
	// twice that time without a request. 0 means wire.DefaultIdleTimeout.
	IdleTimeout time.Duration

	// MaxIdleTimeout is the longest idle timeout that a client may ask for. 0 means
	// wire.DefaultMaxIdleTimeout.
	MaxIdleTimeout time.Duration
}

type Operation struct {
	wire.Route

	// Grants reports whether the operation may wait in line and grant a lease, which must
	// be taken back if the client does not receive the answer. Such an operation is
	// refused while the gateway drains.
	Grants bool

	inTurn               bool // calls of one session for one key are serialized
	refusedWhileDraining bool // refused while the gateway drains, and ended by that, although it grants nothing
	endsWithClient       bool // ends when the client hangs up, since it changes nothing
	leavesLine           bool // a canceled call still has to take its session out of the line
	perform              step
}

type step func(ctx context.Context, s *Service, call *Call) error

// Waits reports whether calls may wait, in a line or for another call of their session.
func (o *Operation) Waits() bool { return o.Cancels() || o.inTurn }

// Cancels reports whether a client can cancel calls that wait in a line.
func (o *Operation) Cancels() bool { return o.Grants || o == CallFunction }

// Call is a call of an operation, with its parameters and its outcome. It is used once.
type Call struct {
	*Operation
	Request           // nil for calls that no client waits for, such as those that end a lock
	Arrived time.Time // of the request

	// Params are the parameters, which Route.Read sets. For operations on owned locks the
	// transport sets them, and the owner.
	wire.Params
	Owner string

	detached context.Context // see Service.Do

	// The outcome.
	Answer any                // the body; nil if it is empty; a *Reply from a function
	Lease  *kvslots.Lease     // of a pool, granted or renewed; nil for other operations
	Lock   *kvslots.OwnedLock // granted by LockOwned; UnlockOwned ends it
	grant  kvslots.Grant      // of a lock or semaphore; zero for other operations
	undo   step               // takes back the grant, unless an earlier call may know of it; nil without one
	keep   step               // takes back the grant of a call with a request key, unless the call is repeated in time; nil: as undo
	Queued bool               // the grant came after a wait in line
	failed error              // of a call that was granted nothing, and is answered without an error
	outcome
}

// Granted reports whether the call has granted a lease or created a session, which must be
// taken back if the client does not receive the answer. Otherwise it would be held until
// its time is over.
func (c *Call) Granted() bool { return c.undo != nil }

// TakeBack takes back a grant that did not reach the client, unless it has ended already, and
// reports whether it has ended. If the client may repeat the request by its key, the store keeps
// the grant for a while. It bounds how long TakeBack takes, also when ctx ends.
func (s *Service) TakeBack(ctx context.Context, call *Call) bool {
	if call.RequestKey != "" && call.keep != nil {
		return s.end(ctx, call, call.keep)
	}
	return s.Withdraw(ctx, call)
}

// Withdraw takes back a grant that the client does not want: see TakeBack.
func (s *Service) Withdraw(ctx context.Context, call *Call) bool { return s.end(ctx, call, call.undo) }

func (s *Service) end(ctx context.Context, call *Call, by step) bool {
	back := *call // the transport may still be using call's answer
	err := by(context.WithoutCancel(ctx), s, &back)
	if err == nil || errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrSessionGone) {
		return true
	}
	call.Trace().Log(s.Log, slog.LevelWarn, "a grant that its client has not got could not be taken back; it ends by itself", slog.Any("error", err))
	return false
}

// Do executes a call in its session's turn. It calls deliver before the turn ends, so
// that the session's next call is served after the answer was delivered.
//
// ctx ends when the client gives up, which ends the wait for the turn and for a grant.
// An operation that must not stop half-way, such as a return, runs under detached,
// which outlives the client. The store bounds how long that takes.
func (s *Service) Do(ctx, detached context.Context, call *Call, deliver func()) error {
	if call.Session != "" && !wire.IsSessionID(call.Session) {
		return kvslots.ErrSessionGone
	}
	if call.Grants || call.refusedWhileDraining {
		begin := s.Lending.UntilStop
		switch {
		case call.Grants && call.Wait > 0:
			begin = s.Lending.Begin
		case call.Grants:
			begin = s.Lending.BeginShort
		}
		lent, end := begin(ctx)
		defer end()
		if err := context.Cause(lent); err != nil && (!call.leavesLine || errors.Is(err, wire.ErrDraining)) {
			return err
		}
		ctx = lent
	} else if !call.endsWithClient {
		ctx = detached
	}
	if call.Grants && call.Wait > 0 {
		client := Origin(call.Remote())
		if err := [...]error{nil, wire.ErrMaxWaitersTotal, wire.ErrMaxWaitersPerIP}[s.Lending.Waits.Enter(client)]; err != nil {
			return err
		}
		defer s.Lending.Waits.Leave(client)
	}
	if call.inTurn {
		done, err := s.turn(ctx, detached, call)
		if err != nil {
			return err
		}
		defer done()
	}
	call.detached = detached
	perform := call.perform
	if call.Grants && call.RequestKey != "" {
		perform = performKept
	}
	err := perform(ctx, s, call)
	s.Events.count(call, err)
	if err == nil {
		deliver()
	}
	return err
}

// ErrWithdrawn is the cause of a context that ends because the client has cancelled its request.
var ErrWithdrawn = fmt.Errorf("%w by its client", context.Canceled)

// performKept performs a call with a request key. When the client has gone, the call keeps its
// place, since the client may repeat it.
func performKept(ctx context.Context, s *Service, call *Call) error {
	err := call.perform(keptContext{ctx}, s, call)
	if errors.Is(err, kvslots.ErrPlaceKept) && !errors.Is(err, wire.ErrDraining) {
		err = context.Canceled
	}
	return err
}

// turn waits for the turn of the call's session. A canceled wait that must still leave
// the line continues under detached.
func (s *Service) turn(ctx, detached context.Context, call *Call) (done func(), err error) {
	if call.Grants {
		done, err = s.Turns.Take(ctx, call.Session, call.Key)
		if err == nil || !call.leavesLine || errors.Is(err, kvslots.ErrSessionGone) || errors.Is(err, kvslots.ErrPlaceKept) {
			return done, err
		}
	}
	detached, cancel := context.WithTimeout(detached, turnTimeout)
	defer cancel()
	return s.Turns.Take(detached, call.Session, call.Key)
}
