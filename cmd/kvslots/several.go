package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
)

type member interface {
	holding
	order() string // defines one order of all slots, and one of all names
}

// several holds several slots, or locks, at once. It takes them in one order for all processes,
// so that no two of them wait for each other, and gives back all if it does not get all. It is an
// underlease.Lease, too: that of the one that ends first.
type several struct {
	given   []member // in the order of the command line
	ordered []member

	leases []underlease.Lease // of the first ones of ordered
	kept   context.Context    // ends when one is lost, or all are given back
	lose   context.CancelCauseFunc
}

// newSeveral returns the holding of one member, or of several. It returns nil if two are the same.
func newSeveral(given []member) holding {
	if len(given) == 1 {
		return given[0]
	}
	s := &several{given: given, ordered: slices.Clone(given)}
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
		s.leases = nil
		s.kept, s.lose = context.WithCancelCause(context.Background())
		err := s.borrowAll(ctx)
		if err == nil {
			return s, nil
		}
		lost := s.kept.Err() != nil
		returning, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
		_ = s.Return(returning) // what it cannot return ends by itself
		cancel()
		if !lost || ctx.Err() != nil {
			return nil, err
		}
	}
}

// returnTimeout bounds the return of some when not all were granted.
const returnTimeout = 5 * time.Second

func (s *several) borrowAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.kept, cancel)()
	for _, m := range s.ordered {
		lease, err := m.Borrow(ctx)
		if err != nil {
			return err
		}
		s.leases = append(s.leases, lease)
		go func(lose context.CancelCauseFunc, kept context.Context) {
			select {
			case <-lease.Done():
				lose(lease.Err())
			case <-kept.Done():
			}
		}(s.lose, s.kept)
	}
	return context.Cause(s.kept)
}

func (s *several) Return(ctx context.Context) error {
	s.lose(nil)
	var failed []error
	for i := range s.leases {
		failed = append(failed, s.ordered[i].Return(ctx))
	}
	return errors.Join(failed...)
}

func (s *several) earliest() underlease.Lease {
	return slices.MinFunc(s.leases, func(a, b underlease.Lease) int { return int(a.Left() - b.Left()) })
}

func (s *several) TTL() time.Duration    { return s.earliest().TTL() }
func (s *several) Left() time.Duration   { return s.earliest().Left() }
func (s *several) Err() error            { return context.Cause(s.kept) }
func (s *several) Trouble() error        { return s.earliest().Trouble() }
func (s *several) Done() <-chan struct{} { return s.kept.Done() }

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
