package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type pool struct {
	id         entry.Hash
	leases     []*lease // in the order of their grants
	byHash     map[entry.Hash]*lease
	endings    []*ending
	adminCalls int     // registrations and deletions under way
	adminUntil Instant // until when earlier ones may take effect
	setOuts    int     // calls of SetOut under way
	outUntil   Instant // until when earlier ones may take effect
}

// lease is what a client has learnt of a lease. overSince and mayEndFrom are never
// until something happens.
type lease struct {
	pool          *pool
	hash          entry.Hash
	position      int
	fence         uint64
	revision      uint64 // of its claim
	session       *session
	owner         string
	label         string
	terms         entry.Terms
	claimedAt     Instant // when its claim was written
	grantedAt     Instant
	promisedUntil Instant // end of its time, unless it ends earlier
	promisedAt    Instant // when its client last learnt that
	mayEndFrom    Instant // when the first call began that may end it
	endCalls      int     // number of calls that may have ended it
	overSince     Instant // when a client learnt of its end
	uncertain     bool    // the stream may have lost it; nothing is known for certain
	told          int     // how many answers with it, or calls that may have had one, a client has not abandoned
	abandoned     bool    // a client says that it was not told of it, and no other was
	returned      bool    // a return of it has succeeded
	request       entry.Hash
	renewedUntil  Instant // until when the renewals so far may take effect
}

func (l *lease) certainlyLive(at Instant) bool {
	return !l.uncertain && l.claimedAt <= at && at < l.promisedUntil && at < l.mayEndFrom && (l.session == nil || at < l.session.aliveUntil)
}

func (l *lease) mayEnd(now Instant) {
	l.mayEndFrom = min(l.mayEndFrom, now)
	l.endCalls++
}

// ending is a call that may end several leases of a pool, including those of calls
// under way.
type ending struct {
	from, until Instant
	owner       string // the owner whose leases end; "" for all
	position    int
	fence       uint64 // the lease of the position that ends; 0 for all
}

func (e *ending) ends(l *lease) bool {
	return (e.owner == "" || e.owner == l.owner) && (e.fence == 0 || e.fence == l.fence && e.position == l.position)
}

func (k *checker) pool(id entry.Hash) *pool {
	p := k.pools[id]
	if p == nil {
		p = &pool{id: id, byHash: map[entry.Hash]*lease{}}
		k.pools[id] = p
	}
	return p
}

func (k *checker) beginLease(c *call) {
	now, l := k.s.now, c.facts.lease
	switch r := c.request.(type) {
	case peer.Return:
		if l != nil {
			c.facts.certain, c.facts.over = l.certainlyLive(now), l.overSince < now
			l.mayEnd(now)
		}
	case peer.Abandon:
		if l == nil {
			break
		}
		if l.told--; l.told == 0 {
			l.abandoned = true
			l.mayEnd(now)
		}
	case peer.ReadLease:
		if l != nil {
			c.facts.certain, c.facts.over = l.certainlyLive(now), l.overSince < now
		}
	case peer.Renew:
		if l != nil {
			c.facts.certain, c.facts.over = l.certainlyLive(now), l.overSince < now
			c.facts.promisedUntil = l.promisedUntil
			l.promisedUntil = min(l.promisedUntil, now.Add(r.TTL))
			l.renewedUntil = never
			l.told++
		}
	case peer.Delete:
		k.beginEnding(c, &ending{})
		c.facts.pool.adminCalls++
	case peer.Evict:
		c.facts.lease = c.facts.pool.leaseWith(r.Position, r.Fence)
		if l := c.facts.lease; l != nil {
			c.facts.certain, c.facts.over = l.certainlyLive(now), l.overSince < now
		}
		k.beginEnding(c, &ending{position: r.Position, fence: r.Fence})
		k.doubtPlaces(c.facts.pool.id)
		k.evictions[claimKey{rules.SlotKey(r.Pool, r.Position), r.Fence}] = true
	case peer.ReadPool:
		c.facts.certainLeases = k.certainLeases(c.facts.pool)
	case peer.SetOut:
		c.facts.pool.setOuts++
	case peer.Register:
		c.facts.pool.adminCalls++
	case peer.ReleaseOwned:
		c.facts.certainLeases = k.certainLeases(c.facts.pool)
		owner := r.Owner
		if r.Force {
			owner = ""
		}
		k.beginEnding(c, &ending{owner: owner})
	}
}

func (p *pool) leaseWith(position int, fence uint64) *lease {
	for _, l := range slices.Backward(p.leases) {
		if l.position == position && l.fence == fence {
			return l
		}
	}
	return nil
}

func (k *checker) beginEnding(c *call, e *ending) {
	p := c.facts.pool
	e.from, e.until = k.s.now, never
	p.endings = append(p.endings, e)
	c.facts.ending = e
	for _, l := range p.leases {
		if e.ends(l) {
			l.mayEnd(k.s.now)
		}
	}
}

// certainLeases returns the pool's certainly live leases. It forgets leases that ended
// long ago.
func (k *checker) certainLeases(p *pool) (sure []*lease) {
	kept := p.leases[:0]
	for _, l := range p.leases {
		if l.certainlyLive(k.s.now) {
			sure = append(sure, l)
		}
		if min(l.promisedUntil, l.mayEndFrom).Add(5*time.Minute) > k.s.now {
			kept = append(kept, l)
		} else {
			delete(p.byHash, l.hash)
		}
	}
	clear(p.leases[len(kept):])
	p.leases = kept
	return sure
}

func (k *checker) answeredLease(c *call) {
	switch r := c.request.(type) {
	case peer.Borrow:
		if lease := leaseOfClaim(r.Lease, c.answer.Grant.Claim); r.Request.IsZero() {
			k.granted(c, lease)
		} else {
			k.granted(c, keyedLease(r.Request, c.answer.Grant.Nonce))
		}
	case peer.Acquire:
		k.granted(c, k.leaseOfGrant(c, r.Lease))
	case peer.Enqueue:
		k.granted(c, k.leaseOfGrant(c, r.Lease))
	case peer.Await:
		k.granted(c, leaseOf(r.Session, c.answer.Grant.Nonce))
	case peer.Return:
		k.returned(c)
	case peer.ReadLease:
		k.leaseRead(c)
	case peer.Renew:
		k.renewed(c, r)
	}
}

func (k *checker) returned(c *call) {
	l := c.facts.lease
	switch {
	case l == nil || c.answer.Err != nil && !isAny(c.answer.Err, peer.ErrNotHeld) || k.mayReflectLoss(c):
	case c.answer.Err == nil && c.facts.over && !l.uncertain: // a lost lease may have come back
		k.wrong(c, "the lease had ended before")
	case c.answer.Err == nil:
		if l.returned {
			k.wrong(c, "another call has returned it")
		}
		l.returned, l.overSince = true, min(l.overSince, c.end)
	case c.facts.certain && l.endCalls == 1 && c.end < l.promisedUntil && l.sessionLives(c.end):
		k.wrong(c, "the lease was live all the time")
	default:
		l.overSince = min(l.overSince, c.end)
	}
}

func (l *lease) sessionLives(at Instant) bool {
	return !l.uncertain && (l.session == nil || at < l.session.aliveUntil)
}

func (k *checker) renewed(c *call, r peer.Renew) {
	l, g := c.facts.lease, c.answer.Grant
	if l != nil {
		l.renewedUntil = c.end
		if c.unknown() {
			l.renewedUntil = c.end.Add(maxLateEffect)
		}
	}
	switch {
	case l == nil || c.unknown():
	case k.mayReflectLoss(c) || c.start < c.node.suspendedUntil:
		l.uncertain = true
	case c.answer.Err == nil && c.facts.over:
		k.wrong(c, "the lease had ended before")
	case c.answer.Err == nil && !l.uncertain && (g.Fence != l.fence || g.Position != l.position):
		k.wrong(c, "the lease has another fence or position")
	case c.answer.Err == nil:
		l.fence, l.position = g.Fence, g.Position // the claim may have been lost, and written again
		k.checkRenewal(c)
		l.promisedUntil, l.promisedAt = c.node.simTime(g.At).Add(g.TTL), c.end
		k.promised(c, g, r.TTL)
	case isAny(c.answer.Err, peer.ErrNotHeld):
		if c.facts.certain && l.endCalls == 0 && c.end < min(c.facts.promisedUntil, c.start.Add(r.TTL)) && l.sessionLives(c.end) {
			k.wrong(c, "the lease was live all the time")
		}
		l.overSince = min(l.overSince, c.end)
	}
}

// checkRenewal checks that a slot was written again during the call while it was lent: a
// renewal that the stream has after the pool's deletion renews nothing.
func (k *checker) checkRenewal(c *call) {
	if at, ok := k.s.server.truth.renewals[claimKey{rules.SlotKey(c.target.pool, c.answer.Grant.Position), c.answer.Grant.Fence}]; !ok || at < c.start {
		k.wrong(c, "the lease was not renewed while it was live")
	}
}

func (k *checker) promised(c *call, g peer.Grant, ttl time.Duration) {
	if at := c.node.simTime(g.At); at > c.end || g.TTL > ttl || at.Add(g.TTL) <= c.end {
		k.wrong(c, "the grant promises another time than the call asked for")
	}
}

// slotEnded checks the end of a slot, which was purged or taken by another lease. If
// two peers have claimed for the same ticket, only one of the slots belongs to the
// lease.
func (k *checker) slotEnded(p *poolTruth, before, after *entry.Entry) {
	l := k.pool(p.id).byHash[before.Slot.Lease]
	if l != nil && l.position != before.Key.N {
		return
	}
	if l != nil && (k.expiredEarly(after) || k.s.server.mayMisjudgeAge(l.claimedAt)) {
		l.uncertain = true
	}
	if l != nil && l.certainlyLive(k.s.now) {
		k.s.fail("lease ended early", "lease %s at position %d, fence %d, was promised for %v more, but the stream has %s",
			short(l.hash), l.position, l.fence, l.promisedUntil.Sub(k.s.now), describeEntry(after))
	}
}

func (k *checker) configured(p *poolTruth, before, after *entry.Entry) {
	if before.Config.Closing && !after.Config.Closing && !after.Marker && !after.Config.Named() {
		k.s.met.add("pool restored")
	}
	if after.Marker == before.Marker && after.Config.Generation == before.Config.Generation {
		k.reconfigured(p, before, after)
		return
	}
	k.unregistered(p, before, after)
	for _, l := range k.pool(p.id).leases {
		if l.certainlyLive(k.s.now) {
			k.s.fail("lease ended early", "lease %s at position %d, fence %d, was promised for %v more, but the stream has %s",
				short(l.hash), l.position, l.fence, l.promisedUntil.Sub(k.s.now), describeEntry(after))
		}
	}
}

// expiredEarly reports whether the server may have expired a key early, because its
// clock may be off by more than maxGuardedClock.
func (k *checker) expiredEarly(e *entry.Entry) bool {
	return e.Marker && e.Previous == 0 && k.s.plan.Clock > maxGuardedClock
}
