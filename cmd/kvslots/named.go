package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
)

// ownSession is the session of a process, which is created when it is needed, and kept alive.
type ownSession struct {
	from    *lender
	session *kvslots.Session // nil until created
}

// open returns the session. It creates one, which covers a ttl, if there is none that lives.
func (o *ownSession) open(ctx context.Context, t leaseTerms) (_ *kvslots.Session, err error) {
	if o.session == nil || o.hasEnded() {
		o.session, err = kvslots.NewSession(ctx, o.from, kvslots.WithIdle(min(t.ttl, kvslots.MaxSessionIdle)), kvslots.WithLabel(t.label))
	}
	return o.session, err
}

// hasEnded reports whether the session has ended, as when no gateway has answered for its idle time.
func (o *ownSession) hasEnded() bool { return o.session != nil && o.session.Err() != nil }

// close ends the session, with all that it holds, until ctx ends.
func (o *ownSession) close(ctx context.Context) (err error) {
	if o.session != nil {
		err = o.session.Close(kvslots.ReturnWithin(ctx))
		o.session = nil
	}
	return err
}

// named is a lock, or a slot of a semaphore, that the command holds. It implements member.
type named struct {
	leaseTerms
	until time.Duration // by package clock: the end of the wait
	in    *ownSession
	on    kvslots.Resource

	mutex *kvslots.Mutex // as last locked
}

func newNamed(in *ownSession, on kvslots.Resource, t leaseTerms) *named {
	return &named{leaseTerms: t, until: clock.Now() + t.wait, in: in, on: on}
}

func (n *named) order() string { return n.on.Key }

// answerGrace is how much longer than the wait a gateway may take to answer.
const answerGrace = 2500 * time.Millisecond

// Borrow takes the lock. All its calls together wait for at most --wait. When the session ends meanwhile, it
// goes on in another one.
func (n *named) Borrow(ctx context.Context) (underlease.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(n.until-clock.Now(), 0)+answerGrace, client.ErrAnswerTimeout)
	defer cancel()
	for {
		err := n.lock(ctx)
		if err == nil {
			return n.mutex, nil
		}
		gone := errors.Is(err, kvslots.ErrSessionGone)
		if ctx.Err() != nil || !gone && !n.in.hasEnded() {
			return nil, n.in.from.explain(err)
		}
		if gone {
			_ = n.in.close(ctx)
		}
	}
}

func (n *named) lock(ctx context.Context) error {
	session, err := n.in.open(ctx, n.leaseTerms)
	if err != nil {
		return err
	}
	opts := []kvslots.Option{kvslots.WithTTL(n.ttl), kvslots.WithWait(max(n.until-clock.Now(), 0))}
	if n.mutex = session.Mutex(n.on.Key, opts...); n.on.Kind == kvslots.KindSemaphore {
		n.mutex = session.Semaphore(n.on.Key, n.on.Limit, opts...)
	}
	return n.mutex.Lock(ctx)
}

// Return ends the session, with all that it holds.
func (n *named) Return(ctx context.Context) error {
	n.in.from.hint = "trying to release the lock for 10 s, or until a second signal"
	return n.in.from.explain(n.in.close(ctx))
}

func (n *named) printShortfall() { printShortfall(n.in.from.stderr, n.mutex.TTL(), n.ttl) }

func (n *named) environment() []string {
	return []string{fmt.Sprintf("KVSLOTS_FENCE=%d", n.mutex.Fence())}
}

func (n *named) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = n.in.close(ctx) // nothing was granted; it ends by itself, too
	n.in.from.Close()
}
