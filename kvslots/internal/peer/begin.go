package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// serve begins a request in the room that serves it. A request of a session uses the session.
func (p *Peer) serve(request Request, c *call) {
	switch r := request.(type) {
	case Borrow:
		p.pools.lend(c, r)
	case Acquire:
		p.sessions.use(c, r.Session)
		p.pools.acquire(c, r)
	case Enqueue:
		p.sessions.use(c, r.Session)
		p.pools.enqueue(c, r)
	case Await:
		p.sessions.use(c, r.Session)
		p.pools.await(c, r)
	case Return:
		p.giveBackHeld(c, &r.Held)
	case Abandon:
		p.abandon(r)
		c.answer(Answer{})
	case Renew:
		p.sessions.use(c, r.Session)
		c.takesEffect()
		r.renew(p.leases, c)
	case Evict:
		c.takesEffect()
		p.evict(c, r)
	case ReleaseOwned:
		p.releaseOwned(c, r)
	case Register:
		p.registry.register(c, r)
	case Delete:
		p.registry.remove(c, r)
	case SetOut:
		p.registry.setOut(c, r)
	case SetLimit:
		p.registry.setLimit(c, r)
	case CreateSession:
		p.sessions.create(c, r)
	case EndSession:
		p.sessions.end(c, r)
	case Ping:
		p.sessions.use(c, r.Session)
		p.sessions.ping(c, r)
	case ReadStats:
		p.look.readStats(c, r)
	case ReadPools:
		p.look.readPools(c, r)
	case FindPools:
		p.look.findPools(c, r)
	case ReadPool:
		p.look.readPool(c, r)
	case ReadPlace:
		p.look.readPlace(c, r)
	case ReadLease:
		p.sessions.use(c, r.Session)
		r.Held.read(&p.look, c)
	case Confirm:
		p.confirm(c)
	}
}

func (p *Peer) giveBackHeld(c *call, h *Held) {
	p.sessions.use(c, h.Session)
	c.takesEffect()
	h.end(p.leases, c, entry.Mark{}, nil)
}
