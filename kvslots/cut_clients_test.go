//go:build unix

package kvslots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// pause sleeps, and reports whether ended is still open.
func (s *cutSoak) pause(ended chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return false
	case <-time.After(d):
		return true
	}
}

// count records the outcome of a call, and reports whether it succeeded.
func (s *cutSoak) count(what string, began time.Time, wait time.Duration, err error) bool {
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[what]++
	s.slowest[what] = max(s.slowest[what], took-wait)
	if err != nil {
		text := err.Error()
		for _, known := range []error{ErrUnavailable, ErrNoSlot, ErrNotHeld, ErrSessionGone, ErrNoPool} {
			if errors.Is(err, known) {
				text = known.Error()
			}
		}
		s.failures[what+": "+text]++
	}
	if soaking && took > wait+maxCall {
		s.t.Errorf("%s took %v at %s: %v", what, took, timeOfDay(time.Now()), err)
	}
	return err == nil
}

// probe measures when a store grants.
func (s *cutSoak) probe(store *cutStore) {
	var all sync.WaitGroup
	defer all.Wait()
	running := make(chan struct{}, maxProbes)
	for s.pause(s.stop, probePace) {
		select {
		case running <- struct{}{}:
		default:
			continue
		}
		all.Go(func() {
			defer func() { <-running }()
			began := time.Now()
			l, err := store.Borrow(s.t.Context(), s.probes, WithFixedTTL(30*time.Second), WithWait(0))
			if !s.count("probe", began, 0, err) {
				return
			}
			store.grants.add()
			lease := s.granted(store, s.probes, l)
			s.giveBack(store, s.probes, l, lease)
		})
	}
}

func (s *cutSoak) granted(store *cutStore, pool uuid.UUID, l *Lease) *natstest.Told {
	lease := &natstest.Told{Fence: l.Fence(), Granted: time.Now(), Ends: l.ExpiresAt(), By: store.name}
	s.ledger.Grant(slotOf{pool: pool, position: l.Position()}, lease)
	return lease
}

// giveBack returns a lease at a store, again until the outcome is known.
func (s *cutSoak) giveBack(store *cutStore, pool uuid.UUID, l *Lease, lease *natstest.Told) {
	ends := s.ledger.GiveBack(lease)
	for again := false; ; again = true {
		began := time.Now()
		ok, err := store.Return(context.Background(), pool, l.ID())
		if s.count("return", began, 0, err) {
			if !ok && !again && time.Now().Before(ends) {
				s.ledger.Fail("%s, was lost before its return at %s by %s", lease, timeOfDay(began), store.name)
			}
			return
		}
		if !errors.Is(err, ErrUnavailable) {
			s.t.Errorf("return: %v", err)
			return
		}
		time.Sleep(probePace)
	}
}

// borrower borrows from the hot pools, and renews and returns at any store.
func (s *cutSoak) borrower(store *cutStore, r *rand.Rand) {
	for s.pause(s.stop, time.Duration(r.IntN(40))*time.Millisecond) {
		i, wait, ttl := r.IntN(len(s.pools)), time.Duration(r.IntN(3000))*time.Millisecond, time.Duration(2+r.IntN(inSoak(3, 30)))*time.Second
		began := time.Now()
		l, err := store.Borrow(s.t.Context(), s.pools[i], WithFixedTTL(ttl), WithWait(wait))
		if !s.count("borrow", began, wait, err) {
			continue
		}
		store.grants.add()
		lease := s.granted(store, s.pools[i], l)
		if l.Position() >= hotCounts[i] {
			s.ledger.Fail("position %d of %d", l.Position(), hotCounts[i])
		}
		for n := max(0, r.IntN(13)-9); n > 0; n-- {
			time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
			s.renew(s.stores[r.IntN(len(s.stores))], s.pools[i], l, lease, ttl)
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		switch n := r.IntN(20); {
		case n == 0: // its time ends it
		case n < 4:
			s.giveBack(s.stores[r.IntN(len(s.stores))], s.pools[i], l, lease)
		default:
			s.giveBack(store, s.pools[i], l, lease)
		}
	}
}

func (s *cutSoak) renew(store *cutStore, pool uuid.UUID, l *Lease, lease *natstest.Told, ttl time.Duration) {
	began := time.Now()
	renewed, err := store.Renew(s.t.Context(), pool, l.ID(), ttl)
	answered := time.Now()
	switch {
	case s.count("renew", began, 0, err):
		if renewed.Fence() != lease.Fence || renewed.Position() != l.Position() {
			s.ledger.Fail("a renewal changed fence %d to %d", lease.Fence, renewed.Fence())
		}
		s.ledger.Renewed(lease, renewed.ExpiresAt())
	case !errors.Is(err, ErrUnavailable) && answered.Before(lease.Ends):
		s.ledger.Fail("%s, was lost before its renewal at %s by %s: %v", lease, timeOfDay(answered), store.name, err)
	}
}

// lockIdle is the idle time of sessions.
const lockIdle = time.Minute

// locker takes locks by sessions, which any store serves.
func (s *cutSoak) locker(store *cutStore, r *rand.Rand) {
	for s.pause(s.stop, probePace) {
		began := time.Now()
		id, _, err := store.CreateSession(s.t.Context(), WithIdle(lockIdle))
		if !s.count("create session", began, 0, err) {
			continue
		}
		gone := false
		for n := r.IntN(200); n > 0 && !gone && s.pause(s.stop, time.Duration(r.IntN(60))*time.Millisecond); n-- {
			gone = errors.Is(s.lock(store, id, r), ErrSessionGone)
		}
		for again := gone; ; again = true {
			began := time.Now()
			err := store.EndSession(s.t.Context(), id)
			if s.count("end session", began, 0, err) || again && errors.Is(err, ErrSessionGone) {
				break
			}
			if !errors.Is(err, ErrUnavailable) {
				s.ledger.Fail("end session at %s by %s: %v", timeOfDay(time.Now()), store.name, err)
				break
			}
		}
	}
}

func (s *cutSoak) lock(store *cutStore, session string, r *rand.Rand) error {
	name := fmt.Sprint("lock-", r.IntN(3))
	wait, began := time.Duration(r.IntN(2000))*time.Millisecond, time.Now()
	g, err := store.Acquire(s.t.Context(), session, Lock(name), WithTTL(2*time.Second+time.Duration(r.IntN(20))*time.Second), WithWait(wait))
	if !s.count("acquire", began, wait, err) {
		if errors.Is(err, ErrSessionGone) {
			s.ledger.Fail("a session is gone at %s by %s", timeOfDay(time.Now()), store.name)
		}
		return err
	}
	now := time.Now()
	store.grants.add()
	lease := &natstest.Told{Fence: g.Fence, Granted: now, Ends: now.Add(g.TTL), By: store.name}
	s.ledger.Grant(slotOf{lock: name}, lease)
	time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	other := s.stores[r.IntN(len(s.stores))]
	if r.IntN(4) == 0 {
		began := time.Now()
		remaining, err := other.RenewGrant(s.t.Context(), session, Lock(name), g.Token, 20*time.Second)
		if now := time.Now(); s.count("extend", began, 0, err) {
			s.ledger.Renewed(lease, began.Add(remaining))
		} else if !errors.Is(err, ErrUnavailable) && now.Before(lease.Ends) {
			s.ledger.Fail("lock: %s, was lost before its extension at %s by %s: %v", lease, timeOfDay(now), other.name, err)
		}
	}
	ends := s.ledger.GiveBack(lease)
	for again := false; ; again = true {
		began := time.Now()
		err := other.Release(s.t.Context(), session, Lock(name), g.Token)
		if s.count("release", began, 0, err) || again && errors.Is(err, ErrNotHeld) {
			return err
		}
		if !errors.Is(err, ErrUnavailable) {
			if time.Now().Before(ends) {
				s.ledger.Fail("lock: %s, was lost before its release at %s by %s: %v", lease, timeOfDay(time.Now()), other.name, err)
			}
			return err
		}
		time.Sleep(probePace)
	}
}

// registrar registers a pool, changes its count, and deletes it.
func (s *cutSoak) registrar(store *cutStore) {
	for s.pause(s.stop, 2*probePace) {
		pool := uuid.New()
		for _, count := range []int{3, 1} {
			for {
				began := time.Now()
				state, err := store.Register(s.t.Context(), pool, count)
				if s.count("register", began, 0, err) {
					if state.Count != count {
						s.ledger.Fail("registered %d, got %+v", count, state)
					}
					break
				}
			}
		}
		for {
			began := time.Now()
			if s.count("delete", began, 0, store.Delete(s.t.Context(), pool)) {
				break
			}
		}
	}
}
