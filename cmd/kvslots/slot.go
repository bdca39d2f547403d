package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
)

const (
	// returnTimeout bounds one attempt to return a lease.
	returnTimeout = 5 * time.Second
	// minReturnTimeout is the shortest timeout of an attempt when the lease is about to
	// end.
	minReturnTimeout = time.Second
)

// slot is a slot that the command borrows from a pool. It implements member.
type slot struct {
	*waiting
	at   *settings.Gateway
	pool uuid.UUID

	from   *lender       // nil until connected
	lease  leaseAnswer   // as last granted or renewed
	latest time.Duration // time, by package clock, at which the lease has ended for certain
}

// slot returns a slot of the pool that was given in args, or else in the environment. The
// caller must close it.
func (p *poolCommand) slot(t leaseTerms, args []string) (*slot, error) {
	pool, err := p.pool(args)
	return &slot{waiting: newWaiting(t, p.ErrOrStderr()), at: &p.at, pool: pool}, err
}

func (s *slot) close() {
	if s.from != nil {
		s.from.close()
	}
}

func (s *slot) mayWait() *waiting { return s.waiting }

func (s *slot) order() string { return s.pool.String() }

func (s *slot) environment() []string { return s.lease.environment() }

// Borrow borrows a slot. All its calls together wait for at most --wait.
func (s *slot) Borrow(ctx context.Context) (lease underlease.Lease, err error) {
	if s.lease.Lease != uuid.Nil && s.left() == 0 {
		return lease, errors.New("the gateway's answers take too long for so short a --ttl")
	}
	err = s.repeat(ctx, func(ctx context.Context, key kvslots.Option) (err error) {
		lease, err = s.borrowOnce(ctx, key)
		return err
	})
	return lease, err
}

// borrowOnce sends one request, and connects before if there is no connection yet.
func (s *slot) borrowOnce(ctx context.Context, key kvslots.Option) (lease underlease.Lease, err error) {
	if s.from == nil {
		if s.from, err = dial(s.at); err != nil {
			return lease, err
		}
	}
	wait, sent := s.left(), clock.Now()
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	answer, err := s.from.borrow(ctx, s.pool, s.ttl, wait, key, kvslots.WithLabel(s.label))
	if err != nil {
		return lease, err
	}
	return s.granted(answer, sent), nil
}

// Renew renews the lease. After an error it also extends latest, unless the error shows
// that the lease was not renewed.
func (s *slot) Renew(ctx context.Context) (underlease.Lease, error) {
	sent := clock.Now()
	answer, err := s.from.renew(ctx, s.pool, s.lease.Lease, s.ttl)
	switch {
	case err == nil:
		return s.granted(answer, sent), nil
	case lost(err):
		err = fmt.Errorf("%w: %w", underlease.ErrLost, err)
	case !final(err) && !errors.Is(err, errors.ErrUnsupported):
		s.latest = max(s.latest, clock.Now()+s.lease.ttl())
	}
	return underlease.Lease{}, err
}

// Follow implements underlease.Slot.
func (s *slot) Follow(lost func()) (stop func()) {
	lease := s.lease.Lease
	return follow(lost, func(ctx context.Context) error { return s.from.client.FollowLease(ctx, s.pool, lease) })
}

// follow calls lost when ended, a method of a client, has returned that nothing is held any more.
func follow(lost func(), ended func(context.Context) error) (stop func()) {
	return background.Run(func(ctx context.Context) {
		if gone(ended(ctx)) {
			lost()
		}
	})
}

// RetryAfter implements underlease.Slot.
func (s *slot) RetryAfter(err error) time.Duration { return retryAfter(err) }

// granted records a lease that was granted or renewed by a request sent at the boottime sent.
func (s *slot) granted(lease leaseAnswer, sent time.Duration) underlease.Lease {
	s.lease, s.latest = lease, clock.Now()+lease.ttl()
	return underlease.Lease{Began: sent + lease.Waited, TTL: lease.ttl()}
}

func (s *slot) printShortfall() {
	if s.lease.ttl() < s.ttl {
		fmt.Fprintf(s.stderr, "kvslots: the gateway granted a lease of only %s, not of %s\n",
			settings.FormatDuration(s.lease.ttl()), settings.FormatDuration(s.ttl))
	}
}

// Return tries to return the lease until it has ended.
func (s *slot) Return(ctx context.Context) error {
	tries := retry{
		until:  s.latest,
		hint:   "trying to return the slot until its lease ends, or a second signal comes",
		stderr: s.stderr,
	}
	for {
		err := s.returnOnce(ctx)
		switch {
		case err == nil || lost(err):
			return nil
		case final(err) || !tries.again(ctx, err):
			return err
		}
	}
}

func (s *slot) returnOnce(ctx context.Context) error {
	timeout := min(max(s.latest-clock.Now(), minReturnTimeout), returnTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, client.ErrAnswerTimeout)
	defer cancel()
	_, err := s.from.giveBack(ctx, s.pool, s.lease.Lease)
	return err
}

func lost(err error) bool {
	return errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrNoPool)
}
