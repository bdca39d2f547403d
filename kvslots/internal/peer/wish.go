package peer

func (p *pools) lend(c *call, r Borrow) {
	p.borrow(c, r.Pool, &wish{
		lease: r.Lease, nonce: r.Nonce, leaseOf: r.LeaseOf, request: r.Request, ttl: r.TTL, label: r.Label, from: r.Origin,
	}, r.Wait)
}

func (p *pools) acquire(c *call, r Acquire) {
	p.borrow(c, r.Pool, &wish{
		lease: r.Lease, nonce: r.Nonce, request: r.Request, session: r.Session, owner: r.Owner, origin: r.Origin,
		ttl: r.TTL, terms: r.terms(), label: r.Label,
	}, r.Wait)
}
