package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
)

// member is one of several.
type member interface {
	holding
	mayWait() *waiting
	order() string // defines one order of all slots, and one of all names
}

// several holds several slots, or locks, at once. It takes them in one order for all processes,
// so that no two of them wait for each other, and gives back all if it does not get all.
type several struct {
	given   []member // in the order of the command line
	ordered []member
	leases  []underlease.Lease // of ordered
}

// newSeveral returns the holding of one member, or of several. It returns nil if two are the same.
func newSeveral(given []member) holding {
	if len(given) == 1 {
		return given[0]
	}
	s := &several{given: given, ordered: slices.Clone(given), leases: make([]underlease.Lease, len(given))}
	slices.SortFunc(s.ordered, func(a, b member) int { return strings.Compare(a.order(), b.order()) })
	for i, m := range s.ordered[1:] {
		if m.order() == s.ordered[i].order() {
			return nil
		}
	}
	return s
}

// Borrow takes all. When one of them is lost while it waits for another, it begins anew.
func (s *several) Borrow(ctx context.Context) (underlease.Lease, error) {
	for {
		held, err := s.borrowAll(ctx)
		if err == nil {
			return s.earliest(), nil
		}
		s.giveBack(ctx, held)
		if !errors.Is(err, underlease.ErrLost) || ctx.Err() != nil {
			return underlease.Lease{}, err
		}
	}
}

// giveBack returns the first n, even if ctx has ended. What it cannot return ends by itself.
func (s *several) giveBack(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	_ = s.each(s.ordered[:n], func(_ int, m member) error { return m.Return(ctx) })
}

// borrowAll returns how many it has taken.
func (s *several) borrowAll(ctx context.Context) (held int, err error) {
	for i, m := range s.ordered {
		if i > 0 {
			m.mayWait().tried = true // a part of the wait is over
		}
		if err := s.borrowNext(ctx, i); err != nil {
			return i, err
		}
	}
	if err := s.renewAll(ctx, len(s.ordered)); errors.Is(err, underlease.ErrLost) {
		return len(s.ordered), err
	}
	return len(s.ordered), nil
}

// borrowNext takes one, and meanwhile renews those before it.
func (s *several) borrowNext(ctx context.Context, i int) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { s.keep(ctx, cancel, i) })
	s.leases[i], err = s.ordered[i].Borrow(ctx)
	lost := context.Cause(ctx)
	cancel(nil)
	keeping.Wait()
	if err != nil && errors.Is(lost, underlease.ErrLost) {
		return lost
	}
	return err
}

// keep renews the first n until ctx ends. It calls lose if one is lost.
func (s *several) keep(ctx context.Context, lose context.CancelCauseFunc, n int) {
	for n > 0 {
		pause := s.leases[0].TTL
		for _, lease := range s.leases[:n] {
			pause = min(pause, lease.TTL)
		}
		if !sleep(ctx, pause/6) {
			return
		}
		within, cancel := context.WithTimeout(ctx, max(pause/6, time.Second))
		err := s.renewAll(within, n)
		cancel()
		if errors.Is(err, underlease.ErrLost) {
			lose(err)
			return
		}
	}
}

// renewAll renews the first n. It returns ErrLost if one of them is lost.
func (s *several) renewAll(ctx context.Context, n int) error {
	return s.each(s.ordered[:n], func(i int, m member) error {
		lease, err := m.Renew(ctx)
		if err == nil {
			s.leases[i] = lease
		}
		return err
	})
}

// each calls do for all members at once.
func (s *several) each(members []member, do func(i int, m member) error) error {
	failed := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { failed[i] = do(i, m) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// earliest returns the lease that ends first.
func (s *several) earliest() underlease.Lease {
	return slices.MinFunc(s.leases, func(a, b underlease.Lease) int { return int(a.Began + a.TTL - b.Began - b.TTL) })
}

func (s *several) Renew(ctx context.Context) (underlease.Lease, error) {
	err := s.renewAll(ctx, len(s.ordered))
	return s.earliest(), err
}

// Follow implements underlease.Slot. It calls lost once, when the first has ended.
func (s *several) Follow(lost func()) (stop func()) {
	first := sync.OnceFunc(lost)
	stops := make([]func(), len(s.ordered))
	for i, m := range s.ordered {
		stops[i] = m.Follow(first)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (s *several) RetryAfter(err error) time.Duration { return retryAfter(err) }

func (s *several) Return(ctx context.Context) error {
	return s.each(s.ordered, func(_ int, m member) error { return m.Return(ctx) })
}

func (s *several) printShortfall() {
	for _, m := range s.given {
		m.printShortfall()
	}
}

// environment returns the variables of the first, and for each variable one in the plural with
// the values of all, separated by commas.
func (s *several) environment() []string {
	variables := s.given[0].environment()
	for i, first := range slices.Clone(variables) {
		name, _, _ := strings.Cut(first, "=")
		var values []string
		for _, m := range s.given {
			_, value, _ := strings.Cut(m.environment()[i], "=")
			values = append(values, value)
		}
		variables = append(variables, name+"S="+strings.Join(values, ","))
	}
	return variables
}

func (s *several) close() {
	for _, m := range s.given {
		m.close()
	}
}
