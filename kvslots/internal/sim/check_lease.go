package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// pool is what clients were told of a pool.
type pool struct {
	id      entry.Hash
	leases  []*lease // in the order in which they were told
	byHash  map[entry.Hash]*lease
	endings []*ending
	admins  int     // registrations and deletions under way
	admin   Instant // until when the last one may take effect
}

// lease is what a client was told of a lease, and when.
type lease struct {
	pool     *pool
	hash     entry.Hash
	position int
	fence    uint64
	session  *session
	owner    string
	terms    entry.Terms
	at       Instant // its claim was written
	told     Instant
	promise  Instant // it lasts until then, if nothing ends it earlier
	cut      Instant // something may have ended it since then
	ends     int     // how many calls may have ended it
	over     Instant // a client was told that it has ended; never
	lost     bool    // the stream may have lost it
	returned bool    // a client was told that it has returned it
}

// certain reports whether the lease is live at a time, beyond doubt.
func (l *lease) certain(at Instant) bool {
	return !l.lost && l.at <= at && at < l.promise && at < l.cut && (l.session == nil || at < l.session.sure)
}

// end notes that something which begins now may end the lease.
func (l *lease) end(now Instant) {
	l.cut = min(l.cut, now)
	l.ends++
}

// ending is a call that may end leases of a pool, those of calls under way too.
type ending struct {
	from, until Instant
	owner       string // only those of this owner; "" for all
}

func (k *checker) pool(id entry.Hash) *pool {
	p := k.pools[id]
	if p == nil {
		p = &pool{id: id, byHash: map[entry.Hash]*lease{}}
		k.pools[id] = p
	}
	return p
}

// beginLease notes what a call may end.
func (k *checker) beginLease(c *call) {
	now, l := k.s.now, c.facts.lease
	switch r := c.request.(type) {
	case peer.Return:
		if l != nil {
			c.facts.sure, c.facts.gone = l.certain(now), l.over < now
			l.end(now)
		}
	case peer.Renew:
		if l != nil {
			c.facts.sure, c.facts.gone = l.certain(now), l.over < now
			c.facts.until = l.promise
			l.promise = min(l.promise, now.Add(r.TTL))
		}
	case peer.Inspect:
		c.facts.leases = k.certain(c.facts.pool)
	case peer.Delete:
		k.beginEnding(c, "")
		c.facts.pool.admins++
	case peer.Register:
		c.facts.pool.admins++
	case peer.ReleaseOwned:
		c.facts.leases = k.certain(c.facts.pool)
		owner := r.Owner
		if r.Force {
			owner = ""
		}
		k.beginEnding(c, owner)
	case peer.InspectOwned:
		c.facts.leases = k.certain(c.facts.pool)
	}
}

// beginEnding notes a call that may end all leases of its pool, or of an owner.
func (k *checker) beginEnding(c *call, owner string) {
	p := c.facts.pool
	e := &ending{from: k.s.now, until: never, owner: owner}
	p.endings = append(p.endings, e)
	c.facts.ends = e
	for _, l := range p.leases {
		if owner == "" || l.owner == owner {
			l.end(k.s.now)
		}
	}
}

// certain are a pool's leases that are certain now. It forgets those that were
// over long ago.
func (k *checker) certain(p *pool) (sure []*lease) {
	kept := p.leases[:0]
	for _, l := range p.leases {
		if l.certain(k.s.now) {
			sure = append(sure, l)
		}
		if min(l.promise, l.cut).Add(5*time.Minute) > k.s.now {
			kept = append(kept, l)
		} else {
			delete(p.byHash, l.hash)
		}
	}
	clear(p.leases[len(kept):])
	p.leases = kept
	return sure
}

// answeredLease holds answers about leases against what was told before.
func (k *checker) answeredLease(c *call) {
	switch r := c.request.(type) {
	case peer.Borrow:
		if c.answer.Err == nil {
			k.granted(c, r.Lease)
		}
	case peer.Acquire:
		if c.answer.Err == nil {
			k.granted(c, r.Lease)
		}
	case peer.Enqueue:
		if c.answer.Err == nil && !c.answer.Queued {
			k.granted(c, r.Lease)
		}
	case peer.Await:
		if c.answer.Err == nil {
			k.granted(c, leaseOf(r.Session, c.answer.Grant.Nonce))
		}
	case peer.Return:
		k.returned(c)
	case peer.Renew:
		k.renewed(c, r)
	case peer.Follow:
		if l := c.facts.lease; l != nil && c.answer.Err == nil && l.certain(c.end) {
			k.wrong(c, "the lease has not ended")
		}
	}
}

func (k *checker) returned(c *call) {
	l := c.facts.lease
	switch {
	case l == nil || c.answer.Err != nil || k.shaken(c):
	case c.answer.Returned && c.facts.gone && !l.lost: // what was lost may have come again
		k.wrong(c, "the lease was over before")
	case c.answer.Returned:
		if l.returned {
			k.wrong(c, "another call has returned it")
		}
		l.returned, l.over = true, min(l.over, c.end)
	case c.facts.sure && l.ends == 1 && c.end < l.promise && l.lasts(c.end):
		k.wrong(c, "the lease was live all the time")
	default:
		l.over = min(l.over, c.end)
	}
}

// lasts reports whether the lease's session certainly lives at a time.
func (l *lease) lasts(at Instant) bool { return !l.lost && (l.session == nil || at < l.session.sure) }

func (k *checker) renewed(c *call, r peer.Renew) {
	l, g := c.facts.lease, c.answer.Grant
	switch {
	case l == nil || c.unknown():
	case k.shaken(c) || c.start < c.node.slept:
		l.lost = true
	case c.answer.Err == nil && c.facts.gone:
		k.wrong(c, "the lease was over before")
	case c.answer.Err == nil && (g.Fence != l.fence || g.Position != l.position):
		k.wrong(c, "the lease has another fence or position")
	case c.answer.Err == nil:
		l.promise = c.node.time(g.At).Add(g.TTL)
		k.promised(c, g, r.TTL)
	case isAny(c.answer.Err, peer.ErrNotHeld):
		if c.facts.sure && l.ends == 0 && c.end < min(c.facts.until, c.start.Add(r.TTL)) && l.lasts(c.end) {
			k.wrong(c, "the lease was live all the time")
		}
		l.over = min(l.over, c.end)
	}
}

// promised checks what a grant says of its time.
func (k *checker) promised(c *call, g peer.Grant, ttl time.Duration) {
	if at := c.node.time(g.At); at > c.end || g.TTL > ttl || g.TTL <= 0 {
		k.wrong(c, "the promise is of another time than was asked for")
	}
}

// slotEnded is called when a slot was freed, or taken by another lease. Two peers may
// have claimed for one ticket, and so for one lease; one of the slots is the lease's.
func (k *checker) slotEnded(p *poolTruth, before, after *entry.Entry) {
	l := k.pool(p.id).byHash[before.Slot.Lease]
	if l != nil && l.position != before.Key.N {
		return
	}
	if l != nil && (k.expiredEarly(after) || k.s.server.misled(l.at)) {
		l.lost = true
	}
	if l != nil && l.certain(k.s.now) {
		k.s.fail("lease ended early", "lease %s at position %d, fence %d, was to last for %v more, but %s",
			short(l.hash), l.position, l.fence, l.promise.Sub(k.s.now), describeEntry(after))
	}
}

// configured is called when a pool's configuration was written.
func (k *checker) configured(p *poolTruth, before, after *entry.Entry) {
	if after.Marker == before.Marker && after.Config.Deleted == before.Config.Deleted && after.Config.Generation == before.Config.Generation {
		return
	}
	for _, l := range k.pool(p.id).leases {
		if l.certain(k.s.now) {
			k.s.fail("lease ended early", "lease %s at position %d, fence %d, was to last for %v more, but %s",
				short(l.hash), l.position, l.fence, l.promise.Sub(k.s.now), describeEntry(after))
		}
	}
}

// expiredEarly reports whether the server itself has ended something, by a clock
// that may have been stepped beyond what the guard allows for.
func (k *checker) expiredEarly(e *entry.Entry) bool {
	return e.Marker && e.Previous == 0 && k.s.plan.Clock > guarded
}
