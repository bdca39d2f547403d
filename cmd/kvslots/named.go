package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
)

// ownSession is the session of a process, which is created when it is needed, and kept alive.
type ownSession struct {
	at *settings.Gateway

	mu      sync.Mutex
	from    *lender          // nil until connected
	session *kvslots.Session // nil until created
	lives   time.Duration    // for how long the session lives without a request
}

// pinged is what a session is kept alive with. Closing the session only ends the pings: the end
// of the session is the return of what it holds.
type pinged struct {
	*client.Client
	lives *time.Duration
}

// CreateSession returns the time after which a gateway ends the session, which is twice the time
// within which it asks for a ping.
func (p pinged) CreateSession(ctx context.Context, opts ...kvslots.Option) (id string, lives time.Duration, err error) {
	id, idle, err := p.Client.CreateSession(ctx, opts...)
	*p.lives = 2 * idle
	return id, *p.lives, err
}

func (pinged) EndSession(context.Context, string) error { return nil }

// open returns the lender, the session's id, and for how long it lives without a request, after it
// has connected and created a session if there is none.
func (o *ownSession) open(ctx context.Context) (from *lender, id string, lives time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.from == nil {
		if o.from, err = dial(o.at); err != nil {
			return nil, "", 0, err
		}
	}
	if o.session != nil && o.session.Err() != nil {
		o.dropLocked()
	}
	if o.session == nil {
		o.session, err = ask(ctx, o.from, 0, func(ctx context.Context) (*kvslots.Session, error) {
			return kvslots.NewSession(ctx, pinged{o.from.client, &o.lives})
		})
		if err != nil {
			return nil, "", 0, err
		}
	}
	return o.from, o.session.ID(), o.lives, nil
}

// drop forgets the session, unless there is a newer one.
func (o *ownSession) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != nil && o.session.ID() == id {
		o.dropLocked()
	}
}

func (o *ownSession) dropLocked() {
	_ = o.session.Close(context.Background())
	o.session = nil
}

func (o *ownSession) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != nil { // nothing was granted
		ctx, cancel := context.WithTimeoutCause(context.Background(), minReturnTimeout, client.ErrAnswerTimeout)
		_ = o.from.client.TryEndSession(ctx, o.session.ID()) // it ends by itself, too
		cancel()
		o.dropLocked()
	}
	if o.from != nil {
		o.from.close()
		o.from = nil
	}
}

// named is a lock, or a slot of a semaphore, that the command holds. It implements member.
type named struct {
	*waiting
	in *ownSession
	on kvslots.Resource

	session string // that holds the grant
	grant   kvslots.Grant
	ttl     time.Duration // as last granted or renewed
	latest  time.Duration // time, by package clock, at which the grant has ended for certain
}

func newNamed(in *ownSession, on kvslots.Resource, t leaseTerms, stderr io.Writer) *named {
	return &named{waiting: newWaiting(t, stderr), in: in, on: on}
}

func (n *named) mayWait() *waiting { return n.waiting }

func (n *named) order() string { return n.on.Key }

// Borrow takes the lock. All its calls together wait for at most --wait.
func (n *named) Borrow(ctx context.Context) (lease underlease.Lease, err error) {
	err = n.repeat(ctx, func(ctx context.Context, key kvslots.Option) (err error) {
		lease, err = n.acquire(ctx, key)
		return err
	})
	return lease, err
}

// asked returns the ttl to ask for. What a session holds ends with it, at the latest.
func (n *named) asked(lives time.Duration) time.Duration { return min(n.leaseTerms.ttl, lives) }

func (n *named) acquire(ctx context.Context, key kvslots.Option) (lease underlease.Lease, err error) {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	from, session, lives, err := n.in.open(ctx)
	if err != nil {
		return lease, err
	}
	wait, sent, sentAt := n.left(), clock.Now(), time.Now()
	g, err := ask(ctx, from, wait, func(ctx context.Context) (kvslots.Grant, error) {
		return from.client.Acquire(ctx, session, n.on, n.asked(lives), wait, key, kvslots.WithLabel(n.label))
	})
	if errors.Is(err, kvslots.ErrSessionGone) {
		n.in.drop(session)
		return lease, &client.Unanswered{Err: err} // the next request is in a new session
	}
	if err != nil {
		return lease, err
	}
	n.session, n.grant = session, g
	return n.granted(g.TTL, sent+max(g.At.Sub(sentAt), 0)), nil
}

// granted records a grant, or its renewal, that began at a boottime.
func (n *named) granted(ttl, began time.Duration) underlease.Lease {
	n.ttl, n.latest = ttl, clock.Now()+ttl
	return underlease.Lease{Began: began, TTL: ttl}
}

// Renew extends the grant, and with it the life of the session.
func (n *named) Renew(ctx context.Context) (underlease.Lease, error) {
	sent := clock.Now()
	left, err := ask(ctx, n.in.from, 0, func(ctx context.Context) (time.Duration, error) {
		return n.in.from.client.Extend(ctx, n.session, n.on, n.grant.Token, n.asked(n.in.lives))
	})
	switch {
	case err == nil:
		return n.granted(left, sent), nil
	case gone(err):
		err = fmt.Errorf("%w: %w", underlease.ErrLost, err)
	case !final(err):
		n.latest = max(n.latest, clock.Now()+n.ttl)
	}
	return underlease.Lease{}, err
}

func gone(err error) bool { return lost(err) || errors.Is(err, kvslots.ErrSessionGone) }

// Follow implements underlease.Slot.
func (n *named) Follow(lost func()) (stop func()) {
	from, session, token := n.in.from, n.session, n.grant.Token
	return follow(lost, func(ctx context.Context) error { return from.client.FollowGrant(ctx, session, n.on, token) })
}

// RetryAfter implements underlease.Slot.
func (n *named) RetryAfter(err error) time.Duration { return retryAfter(err) }

// Return ends the session, with all that it holds. It tries until that has ended by itself.
func (n *named) Return(ctx context.Context) error {
	tries := retry{
		until:  n.latest,
		hint:   "trying to release the lock until its lease ends, or a second signal comes",
		stderr: n.stderr,
	}
	for {
		err := n.endSession(ctx)
		switch {
		case err == nil || gone(err):
			n.in.drop(n.session)
			return nil
		case final(err) || !tries.again(ctx, err):
			return err
		}
	}
}

func (n *named) endSession(ctx context.Context) error {
	timeout := min(max(n.latest-clock.Now(), minReturnTimeout), returnTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, client.ErrAnswerTimeout)
	defer cancel()
	_, err := ask(ctx, n.in.from, 0, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, n.in.from.client.TryEndSession(ctx, n.session)
	})
	return err
}

func (n *named) printShortfall() {
	if n.ttl < n.leaseTerms.ttl && n.ttl < n.in.lives {
		fmt.Fprintf(n.stderr, "kvslots: the gateway granted a lease of only %s, not of %s\n",
			settings.FormatDuration(n.ttl), settings.FormatDuration(n.leaseTerms.ttl))
	}
}

func (n *named) environment() []string {
	return []string{fmt.Sprintf("KVSLOTS_FENCE=%d", n.grant.Fence)}
}

func (n *named) close() { n.in.close() }
