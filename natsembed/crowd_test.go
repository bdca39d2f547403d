package natsembed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// crowd is a set of clients of a store. Its facts outlive a site.
type crowd struct {
	pacer *pacer
	pools [lentPools]uuid.UUID // to lend from
	pause sync.RWMutex         // while it is locked, clients begin nothing

	mu      sync.Mutex
	facts   *facts
	begun   []func(*facts) // since known was called
	reports int            // number of results that were reported to clients
	wrong   error          // contradictions between reports
	more    chan struct{}  // gets a value with each report
}

const (
	lentPools     = 6
	borrowersEach = 3 // of a pool
	lentSlots     = 4
	registrars    = 3
	holders       = 8
	rareHolders   = 2
	sharedLimit   = 5 // of a semaphore that the holders share
	poolTTL       = time.Hour
	grantTTL      = 5 * time.Minute
	sessionIdle   = time.Hour
)

func newCrowd() *crowd {
	return &crowd{pacer: newPacer(), facts: newFacts(), more: make(chan struct{}, 1)}
}

// begin records that a client begins a request. addBegun calls mark again for a copy of
// the facts.
func (c *crowd) begin(mark func(*facts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark(c.facts)
	c.begun = append(c.begun, mark)
}

// report records that a result was reported to a client.
func (c *crowd) report(note func(*facts)) {
	c.reportChecked(func(f *facts) error { note(f); return nil })
}

func (c *crowd) reportChecked(note func(*facts) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = errors.Join(c.wrong, note(c.facts))
	c.reports++
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *crowd) look(at func(*facts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at(c.facts)
}

// await waits for n more reports.
func (c *crowd) await(n int) {
	c.mu.Lock()
	until := c.reports + n
	c.mu.Unlock()
	for {
		<-c.more
		c.mu.Lock()
		enough := c.reports >= until
		c.mu.Unlock()
		if enough {
			return
		}
	}
}

// known returns a copy of the facts, and contradictions between reports so far.
func (c *crowd) known() (*facts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = nil
	f := c.facts.clone()
	c.facts.forget()
	return f, c.wrong
}

// addBegun adds to the facts that known returned what clients have begun since.
func (c *crowd) addBegun(f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mark := range c.begun {
		mark(f)
	}
}

// run runs the clients until ctx ends. They keep what earlier runs acquired. Clients of
// the last pool, and some sessions, act rarely: their entries are old, and the only
// live ones in old blocks.
func (c *crowd) run(ctx context.Context, s *site) {
	var running sync.WaitGroup
	running.Go(func() { c.loadBallast(ctx, s) })
	for i := range c.pools {
		for _, b := range c.borrowers(s, i) {
			running.Go(func() { c.repeat(ctx, i == lentPools-1, b.step) })
		}
	}
	for range registrars {
		running.Go(func() { c.repeat(ctx, false, (&registrar{c: c, s: s}).step) })
	}
	for i, h := range c.holders(s) {
		running.Go(func() { c.repeat(ctx, i < rareHolders, h.step) })
	}
	running.Wait()
}

// mayBegin waits while the clients pause.
func (c *crowd) mayBegin() {
	c.pause.RLock()
	defer c.pause.RUnlock()
}

// repeat does steps until ctx ends. A step may fail, mostly because no slot is free.
func (c *crowd) repeat(ctx context.Context, rarely bool, step func(ctx context.Context)) {
	for !rarely || c.pacer.turn(ctx) {
		c.mayBegin()
		if ctx.Err() != nil {
			return
		}
		step(ctx)
		c.pacer.done()
	}
}

// borrowers returns the borrowers of a pool. If the pool is gone, they register another.
func (c *crowd) borrowers(s *site, pool int) (all [borrowersEach]*borrower) {
	c.look(func(f *facts) {
		p := f.pools[c.pools[pool]]
		if p == nil || p.deleted {
			c.pools[pool], p = uuid.New(), &poolFacts{}
		}
		for i := range all {
			all[i] = &borrower{c: c, s: s, pool: c.pools[pool]}
		}
		i := 0
		for _, l := range p.slots {
			if !l.returned {
				all[i].lease = l.id
				i++
			}
		}
	})
	return all
}

// holders returns the holders, with the sessions that earlier runs created.
func (c *crowd) holders(s *site) (all [holders]*holder) {
	c.look(func(f *facts) {
		i := 0
		for id, of := range f.sessions {
			if of.ended {
				continue
			}
			all[i] = &holder{c: c, s: s, session: id, ttl: grantTTL}
			if of.held != nil && !of.held.released {
				all[i].of, all[i].grant = of.held.of, of.held.grant
			}
			i++
		}
		for ; i < len(all); i++ {
			all[i] = &holder{c: c, s: s}
		}
	})
	return all
}

// borrower borrows, renews or returns in each step.
type borrower struct {
	c     *crowd
	s     *site
	pool  uuid.UUID
	lease uuid.UUID
}

func (b *borrower) step(ctx context.Context) {
	switch known := b.known(); {
	case !known:
		registerPool(ctx, b.c, b.s, b.pool, lentSlots)
	case b.lease == uuid.Nil:
		b.borrow(ctx)
	case rand.IntN(3) > 0:
		b.renew(ctx)
	default:
		b.giveBack(ctx)
	}
}

func (b *borrower) known() (known bool) {
	b.c.look(func(f *facts) { known = f.pools[b.pool] != nil && f.pools[b.pool].count > 0 })
	return known
}

func (b *borrower) borrow(ctx context.Context) {
	var fence uint64
	b.c.look(func(f *facts) { fence = f.fence })
	b.c.begin(func(f *facts) { f.pools[b.pool].borrows++ })
	lease, err := b.s.store.Borrow(ctx, b.pool, poolTTL, time.Minute)
	if err == nil {
		b.lease = lease.ID()
		b.c.reportChecked(func(f *facts) error { return f.grant(b.pool, lease, fence) })
	}
}

func (b *borrower) renew(ctx context.Context) {
	_, err := b.s.store.Renew(ctx, b.pool, b.lease, poolTTL)
	switch {
	case errors.Is(err, kvslots.ErrNotHeld):
		b.c.reportChecked(func(*facts) error { return errors.New("a lease was gone before its renewal") })
	case err == nil:
		b.c.report(func(*facts) {})
	}
}

func (b *borrower) giveBack(ctx context.Context) {
	lease := b.lease
	b.lease = uuid.Nil
	b.c.begin(ofLease(b.pool, lease, func(l *leaseFacts) { l.returning = true }))
	returned, err := b.s.store.Return(ctx, b.pool, lease)
	if err != nil {
		return
	}
	b.c.reportChecked(func(f *facts) error {
		ofLease(b.pool, lease, func(l *leaseFacts) { l.returned = true })(f)
		if !returned {
			return errors.New("a lease was gone before its return")
		}
		return nil
	})
}

// registerPool registers a pool, or changes its count.
func registerPool(ctx context.Context, c *crowd, s *site, pool uuid.UUID, count int) {
	c.begin(func(f *facts) {
		if f.pools[pool] == nil {
			f.pools[pool] = &poolFacts{slots: map[int]*leaseFacts{}}
		}
		f.pools[pool].doubt = true
	})
	if _, err := s.store.Register(ctx, pool, count); err == nil {
		c.report(func(f *facts) { f.pools[pool].count, f.pools[pool].doubt = count, false })
	}
}

// registrar registers a pool, changes its count or deletes it in each step.
type registrar struct {
	c    *crowd
	s    *site
	pool uuid.UUID
}

func (r *registrar) step(ctx context.Context) {
	switch {
	case r.pool == uuid.Nil:
		r.pool = uuid.New()
	case rand.IntN(4) == 0:
		r.unregister(ctx)
	default:
		registerPool(ctx, r.c, r.s, r.pool, lentSlots+1+rand.IntN(100))
	}
}

func (r *registrar) unregister(ctx context.Context) {
	pool := r.pool
	r.pool = uuid.Nil
	r.c.begin(ofPool(pool, func(p *poolFacts) { p.doubt = true }))
	if r.s.store.Delete(ctx, pool) == nil {
		r.c.report(ofPool(pool, func(p *poolFacts) { p.deleted = true }))
	}
}

// holder creates a session, acquires, extends, releases, or ends the session in each
// step.
type holder struct {
	c       *crowd
	s       *site
	session string
	of      kvslots.Resource
	grant   kvslots.Grant // a zero token means that nothing is held
	ttl     time.Duration
}

func (h *holder) step(ctx context.Context) {
	switch {
	case h.session == "":
		h.create(ctx)
	case h.grant.Token == "" && rand.IntN(4) == 0:
		h.end(ctx)
	case h.grant.Token == "":
		h.acquire(ctx)
	case rand.IntN(3) > 0:
		h.extend(ctx)
	default:
		h.release(ctx)
	}
}

func (h *holder) create(ctx context.Context) {
	if id, _, err := h.s.store.CreateSession(ctx, kvslots.WithIdle(sessionIdle)); err == nil {
		h.session = id
		h.c.report(func(f *facts) { f.sessions[id] = &sessionFacts{} })
	}
}

func (h *holder) end(ctx context.Context) {
	id := h.session
	h.session = ""
	h.c.begin(ofSession(id, func(s *sessionFacts) { s.ending = true }))
	if h.s.store.EndSession(ctx, id) == nil {
		h.c.report(ofSession(id, func(s *sessionFacts) { s.ended = true }))
	}
}

func (h *holder) acquire(ctx context.Context) {
	h.of = kvslots.Semaphore("shared", sharedLimit)
	if rand.IntN(2) == 0 {
		h.of = kvslots.Lock(fmt.Sprintf("lock %d", rand.Uint64()))
	}
	h.ttl = grantTTL
	id, of, ends := h.session, h.of, time.Now().Add(h.ttl)
	var fence uint64
	h.c.look(func(f *facts) { fence = f.fence })
	h.c.begin(ofSession(id, func(s *sessionFacts) { s.acquiring = true }))
	grant, err := h.s.store.Acquire(ctx, id, h.of, h.ttl, time.Minute)
	if err != nil {
		return
	}
	h.grant = grant
	h.c.reportChecked(func(f *facts) error {
		f.fence = max(f.fence, grant.Fence)
		ofSession(id, func(s *sessionFacts) {
			s.acquiring, s.held = false, &heldFacts{of: of, grant: grant, ends: ends}
		})(f)
		return fenceAbove(grant.Fence, fence)
	})
}

// extend extends the lease by so much that check notices a lost extension.
func (h *holder) extend(ctx context.Context) {
	h.ttl = min(h.ttl+time.Minute, time.Hour)
	id, ends := h.session, time.Now().Add(h.ttl)
	if _, err := h.s.store.Extend(ctx, id, h.of, h.grant.Token, h.ttl); err == nil {
		h.c.report(ofGrant(id, h.grant.Token, func(held *heldFacts) { held.ends = ends }))
	}
}

func (h *holder) release(ctx context.Context) {
	id, token := h.session, h.grant.Token
	h.grant = kvslots.Grant{}
	h.c.begin(ofGrant(id, token, func(held *heldFacts) { held.releasing = true }))
	if h.s.store.Release(ctx, id, h.of, token) == nil {
		h.c.report(ofGrant(id, token, func(held *heldFacts) { held.released = true }))
	}
}
