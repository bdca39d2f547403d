package natsembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// facts are the results that were reported to clients, and the requests that clients
// have begun without a reported result.
type facts struct {
	pools    map[uuid.UUID]*poolFacts
	sessions map[string]*sessionFacts
	fence    uint64 // the highest that was reported
	ballast  ballastFacts
}

// poolFacts are about a registered pool.
type poolFacts struct {
	count   int  // as reported; 0 if none was
	deleted bool // the deletion was reported
	doubt   bool // a registration or the deletion was begun
	borrows int  // number of borrows that were begun
	slots   map[int]*leaseFacts
}

// leaseFacts are about the last reported lease of a position.
type leaseFacts struct {
	id        uuid.UUID
	fence     uint64
	returning bool // its return was begun
	returned  bool // its return was reported
}

// sessionFacts are about a session.
type sessionFacts struct {
	ending, ended bool // its end was begun, and reported
	held          *heldFacts
	acquiring     bool // another acquisition was begun
}

// heldFacts are about the latest acquisition of a session.
type heldFacts struct {
	of        kvslots.Resource
	grant     kvslots.Grant
	ends      time.Time // the earliest end, as reported
	releasing bool
	released  bool
}

// uncertain reports whether it is unknown if the resource is held.
func (h *heldFacts) uncertain() bool { return h != nil && h.releasing && !h.released }

func newFacts() *facts {
	return &facts{pools: map[uuid.UUID]*poolFacts{}, sessions: map[string]*sessionFacts{}}
}

// clone returns a deep copy.
func (f *facts) clone() *facts {
	c := newFacts()
	c.fence, c.ballast = f.fence, f.ballast
	for id, p := range f.pools {
		c.pools[id] = &poolFacts{p.count, p.deleted, p.doubt, p.borrows, map[int]*leaseFacts{}}
		for position, l := range p.slots {
			lease := *l
			c.pools[id].slots[position] = &lease
		}
	}
	for id, s := range f.sessions {
		session := *s
		if s.held != nil {
			held := *s.held
			session.held = &held
		}
		c.sessions[id] = &session
	}
	return c
}

// forget drops half of the facts about what has ended, which would grow with each cut.
func (f *facts) forget() {
	maps.DeleteFunc(f.pools, func(_ uuid.UUID, p *poolFacts) bool { return p.deleted && rand.IntN(2) == 0 })
	maps.DeleteFunc(f.sessions, func(_ string, s *sessionFacts) bool { return s.ended && rand.IntN(2) == 0 })
}

// check returns which reported results a recovered site has lost, and what it has
// granted twice. Then it makes the facts certain: it undoes or ends what was begun.
func (f *facts) check(ctx context.Context, s *site) error {
	wrong := f.ballast.check(ctx, s)
	stats, err := insist(s, func() (kvslots.Stats, error) { return s.store.Stats(ctx) })
	if err != nil {
		return errors.Join(wrong, err)
	}
	holders := map[string][]kvslots.HolderStats{}
	for _, n := range stats.Names {
		holders[n.Key] = n.Holders
		if limit := max(1, n.Limit); len(n.Holders) > limit {
			wrong = errors.Join(wrong, fmt.Errorf("%s has %d holders of %d", n.Key, len(n.Holders), limit))
		}
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	at := func(check func() error) {
		running.Go(func() {
			err := check()
			mu.Lock()
			defer mu.Unlock()
			wrong = errors.Join(wrong, err)
		})
	}
	for id, p := range maps.Clone(f.pools) {
		if p.deleted || p.count == 0 || p.doubt {
			delete(f.pools, id)
		}
		at(func() error { return p.check(ctx, s, id) })
	}
	for id, of := range maps.Clone(f.sessions) {
		if of.ended || of.ending || of.acquiring || of.held.uncertain() {
			delete(f.sessions, id)
		}
		at(func() error { return of.check(ctx, s, id, holders) })
	}
	running.Wait()
	return errors.Join(wrong, f.checkFence(ctx, s))
}

// checkFence borrows a slot, which must have a higher fence than all reported ones.
func (f *facts) checkFence(ctx context.Context, s *site) error {
	pool := uuid.New()
	if _, err := insist(s, func() (kvslots.State, error) { return s.store.Register(ctx, pool, 1) }); err != nil {
		return err
	}
	lease, err := insist(s, func() (*kvslots.Lease, error) { return s.store.Borrow(ctx, pool, time.Minute, 0) })
	if err != nil {
		return err
	}
	if lease.Fence() <= f.fence {
		err = fmt.Errorf("fence %d follows %d", lease.Fence(), f.fence)
	}
	return errors.Join(err, insistOn(s, func() error { return s.store.Delete(ctx, pool) }))
}

func (p *poolFacts) check(ctx context.Context, s *site, id uuid.UUID) error {
	state, err := insist(s, func() (kvslots.State, error) { return s.store.Inspect(ctx, id) })
	switch {
	case errors.Is(err, kvslots.ErrNoPool):
		if p.count > 0 && !p.doubt && !p.deleted {
			return fmt.Errorf("a pool of %d is gone", p.count)
		}
		return nil
	case err != nil:
		return err
	case p.deleted:
		return fmt.Errorf("a deleted pool is back: %+v", state)
	case !p.doubt && state.Count != p.count:
		return fmt.Errorf("a pool has %d slots, %d were reported", state.Count, p.count)
	}
	var wrong []error
	least, most := 0, p.borrows
	for position, l := range p.slots {
		if !l.returned {
			most++
		}
		if !l.returning && !l.returned {
			least++
		}
		if err := l.check(ctx, s, id, position); err != nil {
			wrong = append(wrong, err)
		}
	}
	if state.InUse < least || state.InUse > most || state.InUse > max(state.Count, p.count) {
		wrong = append(wrong, fmt.Errorf("%d of %d slots are in use, and %d to %d leases are known", state.InUse, state.Count, least, most))
	}
	return errors.Join(append(wrong, p.settle(ctx, s, id))...)
}

// settle ends what was begun in an existing pool.
func (p *poolFacts) settle(ctx context.Context, s *site, id uuid.UUID) error {
	if p.doubt {
		return insistOn(s, func() error { return s.store.Delete(ctx, id) })
	}
	for _, l := range p.slots {
		if l.returning && !l.returned {
			if _, err := insist(s, func() (bool, error) { return s.store.Return(ctx, id, l.id) }); err != nil {
				return err
			}
			l.returned = true
		}
	}
	state, err := insist(s, func() (kvslots.State, error) { return s.store.Inspect(ctx, id) })
	if err != nil {
		return err
	}
	p.borrows = 0
	if state.InUse > p.held() { // a lease that was not reported to a client
		p.deleted = true
		return insistOn(s, func() error { return s.store.Delete(ctx, id) })
	}
	return nil
}

// held returns the number of leases that were reported and not returned.
func (p *poolFacts) held() (n int) {
	for _, l := range p.slots {
		if !l.returned {
			n++
		}
	}
	return n
}

// check renews the lease. A renewal replaces the old entry, so some leases are counted
// instead.
func (l *leaseFacts) check(ctx context.Context, s *site, pool uuid.UUID, position int) error {
	if !l.returned && !l.returning && rand.IntN(2) == 0 {
		return nil
	}
	lease, err := insist(s, func() (*kvslots.Lease, error) { return s.store.Renew(ctx, pool, l.id, poolTTL) })
	switch {
	case errors.Is(err, kvslots.ErrNotHeld):
		if l.returned || l.returning {
			return nil
		}
		return fmt.Errorf("the lease of position %d is gone, fence %d", position, l.fence)
	case err != nil:
		return err
	case l.returned:
		return fmt.Errorf("a returned lease of position %d is back, fence %d", position, l.fence)
	case lease.Position() != position || lease.Fence() != l.fence:
		return fmt.Errorf("position %d, fence %d became position %d, fence %d", position, l.fence, lease.Position(), lease.Fence())
	}
	return nil
}

func (of *sessionFacts) check(ctx context.Context, s *site, id string, holders map[string][]kvslots.HolderStats) error {
	err := insistOn(s, func() error { return s.store.Ping(ctx, id) })
	switch {
	case errors.Is(err, kvslots.ErrSessionGone):
		if !of.ending && !of.ended {
			return errors.New("a session is gone")
		}
		return nil
	case err != nil:
		return err
	case of.ended:
		return errors.New("an ended session is back")
	}
	if h := of.held; h != nil && !of.ending {
		err = h.check(holders[h.of.Key])
	}
	if of.ending || of.acquiring || of.held.uncertain() {
		ended := insistOn(s, func() error { return s.store.EndSession(ctx, id) })
		if !errors.Is(ended, kvslots.ErrSessionGone) { // ErrSessionGone is the result of a repeated call
			err = errors.Join(err, ended)
		}
	}
	return err
}

func (h *heldFacts) check(holders []kvslots.HolderStats) error {
	at := slices.IndexFunc(holders, func(s kvslots.HolderStats) bool { return s.Fence == h.grant.Fence })
	switch {
	case at < 0 && !h.releasing:
		return fmt.Errorf("%s is not held, fence %d", h.of.Key, h.grant.Fence)
	case at >= 0 && h.released:
		return fmt.Errorf("%s is held after its release, fence %d", h.of.Key, h.grant.Fence)
	case at >= 0 && holders[at].ExpiresIn < time.Until(h.ends)-time.Second:
		return fmt.Errorf("%s ends in %v, %v was reported", h.of.Key, holders[at].ExpiresIn, time.Until(h.ends))
	}
	return nil
}

// grant records a reported lease.
func (f *facts) grant(pool uuid.UUID, l *kvslots.Lease, before uint64) error {
	p := f.pools[pool]
	p.borrows--
	f.fence = max(f.fence, l.Fence())
	old := p.slots[l.Position()]
	p.slots[l.Position()] = &leaseFacts{id: l.ID(), fence: l.Fence()}
	if old != nil && !old.returning && !old.returned {
		return fmt.Errorf("position %d was lent twice, with fences %d and %d", l.Position(), old.fence, l.Fence())
	}
	return fenceAbove(l.Fence(), before)
}

// fenceAbove fails unless a fence is above one reported before the request for it.
func fenceAbove(fence, before uint64) error {
	if cmp.Compare(fence, before) <= 0 {
		return fmt.Errorf("fence %d follows %d", fence, before)
	}
	return nil
}

// ofPool marks the facts about a pool, if there are any.
func ofPool(id uuid.UUID, mark func(*poolFacts)) func(*facts) {
	return func(f *facts) {
		if p := f.pools[id]; p != nil {
			mark(p)
		}
	}
}

// ofLease marks the facts about a lease, if there are any.
func ofLease(pool, lease uuid.UUID, mark func(*leaseFacts)) func(*facts) {
	return ofPool(pool, func(p *poolFacts) {
		for _, l := range p.slots {
			if l.id == lease {
				mark(l)
			}
		}
	})
}

// ofSession marks the facts about a session, if there are any.
func ofSession(id string, mark func(*sessionFacts)) func(*facts) {
	return func(f *facts) {
		if s := f.sessions[id]; s != nil {
			mark(s)
		}
	}
}

// ofGrant marks the facts about a session's acquisition, if there are any.
func ofGrant(session, token string, mark func(*heldFacts)) func(*facts) {
	return ofSession(session, func(s *sessionFacts) {
		if s.held != nil && s.held.grant.Token == token {
			mark(s.held)
		}
	})
}
