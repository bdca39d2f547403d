// Package ops has every operation on pools, sessions, locks and semaphores once: how
// the body of a request is read, what the store is asked, and what is answered. The
// packages that carry requests, over HTTP and over NATS, know where the id of a pool,
// the session and the key stand in theirs, and how an answer gets to its client.
package ops

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// turnTimeout bounds how long an operation that waits for nothing else waits for the
// turn of its session.
const turnTimeout = 30 * time.Second

// Service performs operations. What it leaves out has no operations.
type Service struct {
	Pools    Pools
	Sessions Sessions
	Lending  *Lending
	Turns    *Turns // of Sessions

	DefaultLeaseTTL time.Duration // of a lock whose request has none; 0 means wire.DefaultLeaseTTL
	IdleTimeout     time.Duration // that clients of sessions are told; 0 means wire.DefaultIdleTimeout
	Clients         func() int    // how many clients are connected without a session; nil means 0
}

// Operation is one thing that a client may ask for.
type Operation struct {
	// Subject is that of its requests over NATS; "" for an operation that only HTTP
	// has.
	Subject string

	// Noun and Name are the words that make the subject and the path of an operation
	// on locks or semaphores.
	Noun, Name string

	// Grants reports whether it may wait in line, and may grant what has to be taken
	// back if its client does not learn of it. It is refused while the gateway drains.
	Grants bool

	*family
	kind   kvslots.Kind
	opens  bool // refused while the gateway drains, though nothing has to be taken back
	quits  bool // has no reason to go on when its client is gone
	leaves bool // when it is given up, its session still has to leave the line
	read   func(call *Call, body wire.Fields) error
	do     step
}

// family is what operations have in common that are about the same kind of thing.
type family struct {
	// StatusOf is the table of their errors.
	StatusOf wire.Lookup

	// Parse reads a body as far as that is the same for all.
	Parse func(body []byte) (wire.Fields, error)

	locate func(call *Call, body wire.Fields) error // takes what a call is about out of its body
	inTurn bool                                     // calls of one session are served one after the other
}

// step asks the store, and notes in the call what it came to.
type step func(ctx context.Context, s *Service, call *Call) error

// HasBody reports whether requests have a body although they say elsewhere what they
// are about.
func (o *Operation) HasBody() bool { return o.read != nil }

// Waits reports whether calls may wait: in a line, or for another call of their session.
func (o *Operation) Waits() bool { return o.Grants || o.inTurn }

// Call is a request for an operation, and what it came to. It is used once.
type Call struct {
	*Operation

	// What it is about.
	Pool     uuid.UUID
	Session  string
	Resource kvslots.Resource // of which carriers set the key

	// PoolsAfter is where the page of Stats begins; "" for the first page.
	PoolsAfter string

	// Remote is the address and port of the client, for the caps on sessions and waiters
	// per address; "" where it is not known.
	Remote string

	count     int
	lease     uuid.UUID
	token     string
	ttl, wait time.Duration

	// What it came to.
	Answer any            // the body; nil when there is nothing to say
	Queued bool           // what was granted was stood in line for
	Lease  *kvslots.Lease // of a pool, which was granted or renewed; nil for anything else
	undo   step           // takes back what was granted; nil: nothing was
}

// Read reads what the body says beside what the call is about.
func (c *Call) Read(body wire.Fields) error {
	if c.read == nil {
		return nil
	}
	c.Resource.Kind, c.Resource.Limit = c.kind, 1
	return c.read(c, body)
}

// ReadAll reads a body that says what the call is about, too.
func (c *Call) ReadAll(body []byte) error {
	fields, err := c.Parse(body)
	if err != nil {
		return err
	}
	if c.locate != nil {
		if err := c.locate(c, fields); err != nil {
			return err
		}
	}
	return c.Read(fields)
}

// Granted reports whether there is something to take back if the client does not learn
// of it: otherwise it stays taken until its time is over.
func (c *Call) Granted() bool { return c.undo != nil }

// TakeBack takes back what was granted, if it has not ended by itself since. The store
// bounds how long that takes.
func (s *Service) TakeBack(ctx context.Context, call *Call) error {
	back := *call // which its carrier may still be answering
	err := call.undo(ctx, s, &back)
	if errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrSessionGone) {
		return nil
	}
	return err
}

// Do performs a call, in the turn of its session, and calls deliver while that turn
// lasts, so that no other call of the session is served in between.
//
// ctx ends when the client does not wait for the answer any more, and with it the wait
// for the turn and for what may be granted. An operation that has no reason to stop
// half-way because of that, such as a return, goes on under lasting. The store bounds
// how long.
func (s *Service) Do(ctx, lasting context.Context, call *Call, deliver func()) error {
	if call.Session != "" && !wire.IsSessionID(call.Session) {
		return kvslots.ErrSessionGone
	}
	if call.Grants || call.opens {
		lent, end := s.Lending.Begin(ctx)
		defer end()
		if err := context.Cause(lent); err != nil && (!call.leaves || errors.Is(err, wire.ErrDraining)) {
			return err
		}
		ctx = lent
	} else if !call.quits {
		ctx = lasting
	}
	if call.wait > 0 {
		if err := s.Lending.Waits.Enter(call.Remote); err != nil {
			return err
		}
		defer s.Lending.Waits.Leave(call.Remote)
	}
	if call.inTurn {
		done, err := s.turn(ctx, lasting, call)
		if err != nil {
			return err
		}
		defer done()
	}
	if err := call.do(ctx, s, call); err != nil {
		return err
	}
	deliver()
	return nil
}

// turn waits for the turn of the call's session. A call that gives up its wait before
// its turn has come waits on, if it is to leave the line.
func (s *Service) turn(ctx, lasting context.Context, call *Call) (done func(), err error) {
	if call.Grants {
		done, err = s.Turns.Take(ctx, call.Session)
		if err == nil || !call.leaves || errors.Is(err, kvslots.ErrSessionGone) || errors.Is(err, kvslots.ErrPlaceKept) {
			return done, err
		}
	}
	lasting, cancel := context.WithTimeout(lasting, turnTimeout)
	defer cancel()
	return s.Turns.Take(lasting, call.Session)
}
