package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// slot is a slot that the command borrows from a pool. It implements member.
type slot struct {
	leaseTerms
	until time.Duration // by package clock: the end of the wait
	from  *lender
	pool  uuid.UUID

	lease *kvslots.Lease // as last granted; nil before
}

// slot returns a slot of the pool that was given in args, or else in the environment. The
// caller must close it.
func (p *gatewayCommand) slot(t leaseTerms, args []string) (*slot, error) {
	pool, err := p.pool(args)
	if err != nil {
		return nil, err
	}
	from, err := dial(&p.at, p.ErrOrStderr())
	return &slot{leaseTerms: t, until: clock.Now() + t.wait, from: from, pool: pool}, err
}

func (s *slot) close() { s.from.Close() }

func (s *slot) order() string { return s.pool.String() }

func (s *slot) environment() []string { return s.answer().environment() }

func (s *slot) answer() leaseAnswer { return leaseAnswer(wire.NewLease(s.lease)) }

// take borrows a slot. All its calls together wait for at most --wait.
func (s *slot) take(ctx context.Context) (err error) {
	wait := max(s.until-clock.Now(), 0)
	if s.lease != nil && wait == 0 {
		return errors.New("the gateway's answers take too long for so short a --ttl")
	}
	s.lease, err = s.from.Borrow(ctx, s.pool, kvslots.WithFixedTTL(s.ttl), kvslots.WithWait(wait), kvslots.WithLabel(s.label))
	return s.from.explain(err)
}

// Borrow borrows a slot, and keeps its lease.
func (s *slot) Borrow(ctx context.Context) (underlease.Lease, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	s.lease.KeepAlive()
	return s.lease, nil
}

func (s *slot) Return(ctx context.Context) error {
	s.from.hint = "trying to return the slot for 10 s, or until a second signal"
	_, err := s.lease.Return(kvslots.ReturnWithin(ctx))
	if errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrNoPool) {
		return nil
	}
	return s.from.explain(err)
}

func (s *slot) printShortfall() { printShortfall(s.from.stderr, s.lease.TTL(), s.ttl) }

func printShortfall(stderr io.Writer, granted, ttl time.Duration) {
	if granted < ttl {
		fmt.Fprintf(stderr, "kvslots: the gateway granted a lease of only %s, not of %s\n",
			settings.FormatDuration(granted), settings.FormatDuration(ttl))
	}
}
