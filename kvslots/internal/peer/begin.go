package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Each request begins in the room that serves it.

func (r Register) begin(p *Peer, c *call)      { p.pools.register(c, r) }
func (r Inspect) begin(p *Peer, c *call)       { p.pools.inspect(c, r) }
func (r Delete) begin(p *Peer, c *call)        { p.pools.remove(c, r) }
func (r ReleaseOwned) begin(p *Peer, c *call)  { p.pools.releaseOwned(c, r) }
func (r InspectOwned) begin(p *Peer, c *call)  { p.pools.inspectOwned(c, r) }
func (r CreateSession) begin(p *Peer, c *call) { p.sessions.create(c, r) }
func (r EndSession) begin(p *Peer, c *call)    { p.sessions.end(c, r) }
func (r ReadStats) begin(p *Peer, c *call)     { p.readStats(c, r) }
func (r ReadPools) begin(p *Peer, c *call)     { p.readPools(c, r) }
func (r ReadPool) begin(p *Peer, c *call)      { p.pools.readPool(c, r) }
func (r ReadPlace) begin(p *Peer, c *call)     { p.pools.readPlace(c, r) }
func (r SetOut) begin(p *Peer, c *call)        { p.pools.setOut(c, r) }
func (r Confirm) begin(p *Peer, c *call)       { p.confirm(c) }
func (r Follow) begin(p *Peer, c *call)        { p.follows.follow(c, r) }

func (r Borrow) begin(p *Peer, c *call) {
	p.pools.borrow(c, r.Pool, wish{
		lease: r.Lease, nonce: r.Nonce, leaseOf: r.LeaseOf, request: r.Request, ttl: r.TTL, label: r.Label, from: r.Origin,
	}, r.Wait)
}

// The others use the calling session, if there is one.

func (r Acquire) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	p.pools.borrow(c, r.Pool, wish{
		lease: r.Lease, nonce: r.Nonce, request: r.Request, session: r.Session, owner: r.Owner, origin: r.Origin,
		ttl: r.TTL, terms: r.terms(), label: r.Label,
	}, r.Wait)
}

func (r Return) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	c.effect = true
	r.Held.end(c, entry.NoCause, nil)
}

// begin returns the lease. If the call is answered before that, the peer goes on, since no client
// knows of the lease.
func (r Abandon) begin(p *Peer, c *call) {
	p.reads.whenLive(func() { r.giveBack(p.kernel) })
	if r.Repeat {
		c.answer(Answer{})
		return
	}
	c.quit = quitFunc(func(why error) {
		c.quit = nil
		c.answer(Answer{Err: why})
		p.reads.whenCurrent(nil, func() { r.purge(p.kernel) })
	})
	Return{r.Held}.begin(p, c)
}

func (r Evict) begin(p *Peer, c *call) {
	c.effect = true
	p.pools.evict(c, r)
}

func (r ReadLease) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	r.Held.read(c)
}

func (r Renew) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	c.effect = true
	r.renew(c)
}

func (r Enqueue) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	p.enqueued.enqueue(c, r)
}

func (r Await) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	p.enqueued.await(c, r)
}

func (r Ping) begin(p *Peer, c *call) {
	p.sessions.use(c, r.Session)
	p.sessions.ping(c, r)
}
