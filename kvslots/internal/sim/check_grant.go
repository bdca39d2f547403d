package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// granted holds a lease that a client was told to have against the others, and
// against the stream at the moment of its claim, which its fence names.
func (k *checker) granted(c *call, hash entry.Hash) {
	g, p := c.answer.Grant, c.facts.pool
	k.s.met.add("granted")
	if known := p.byHash[hash]; known != nil {
		k.grantedAgain(c, known)
		return
	}
	l := k.newLease(c, hash)
	claimed, ok := k.s.server.truth.claims[g.Fence]
	switch {
	case k.shaken(c):
		l.lost = true
	case !ok || claimed.pool.id != p.id || claimed.position != g.Position || claimed.lease != hash:
		k.wrong(c, "the stream has no such claim")
	default:
		l.at = claimed.at
		l.lost = claimed.at < c.node.slept // the peer cannot know how long ago that was
		k.checkClaim(c, l, claimed)
		k.checkStands(c, l)
	}
	p.leases = append(p.leases, l)
	p.byHash[hash] = l
}

func (k *checker) newLease(c *call, hash entry.Hash) *lease {
	g := c.answer.Grant
	l := &lease{
		pool: c.facts.pool, hash: hash, position: g.Position, fence: g.Fence, session: c.facts.session,
		at: k.s.now, told: k.s.now, promise: c.node.time(g.At).Add(g.TTL), cut: never, over: never,
	}
	switch r := c.request.(type) {
	case peer.Acquire:
		l.owner, l.terms = r.Owner, terms(r.Resource)
	case peer.Enqueue:
		l.terms = terms(r.Resource)
	}
	if ttl := c.target.ttl; ttl > 0 {
		k.promised(c, g, ttl)
	}
	if l.session != nil && l.session.ended < never {
		l.end(l.session.ended)
	}
	for _, e := range l.pool.endings {
		if e.until >= c.start && (e.owner == "" || e.owner == l.owner) {
			l.end(max(e.from, c.start))
		}
	}
	return l
}

// grantedAgain is a lease that was granted at enqueue already, and that a wait
// begins again.
func (k *checker) grantedAgain(c *call, l *lease) {
	g := c.answer.Grant
	if _, awaits := c.request.(peer.Await); !awaits {
		k.wrong(c, "the lease was granted before")
		return
	}
	if k.shaken(c) {
		l.lost = true
	}
	if l.lost { // its ticket may stand again, and have been served again
		l.fence, l.position = g.Fence, g.Position
		return
	}
	if g.Fence != l.fence || g.Position != l.position {
		k.wrong(c, "the lease has another fence or position")
	}
	if l.over < c.start {
		k.wrong(c, "the lease was over before")
	}
	l.promise = c.node.time(g.At).Add(g.TTL)
}

// checkClaim looks at the pool as it was when the slot was taken.
func (k *checker) checkClaim(c *call, l *lease, claimed claim) {
	if l.position >= claimed.count {
		k.s.fail("over-issue", "call %d was granted position %d of %d", c.id, l.position, claimed.count)
	}
	if !claimed.stood {
		k.s.fail("ticket", "call %d was granted a claim for a ticket that stood in no line", c.id)
	}
	// A claim that was made at once, and void, may have been told by its peer as far as
	// another peer knows: after a second it stands, and a wait there is told of it.
	_, awaits := c.request.(peer.Await)
	if claimed.below > claimed.ahead && !(awaits && claimed.ticket == 0) {
		k.s.fail("lowest free", "call %d was granted position %d when %d below were free and %d tickets stood before it",
			c.id, l.position, claimed.below, claimed.ahead)
	}
	live, before := 1, 0
	for _, o := range l.pool.leases {
		if o.told < l.at && o.fence >= l.fence && !o.lost {
			k.s.fail("fences", "fence %d was told before the claim of fence %d", o.fence, l.fence)
		}
		if !o.certain(l.at) {
			k.checkOverlap(c, l, o)
			continue
		}
		live++
		if o.fence < l.fence { // else it was claimed later, at the same instant
			before++
		}
		k.checkOverlap(c, l, o)
	}
	if live > claimed.count {
		k.s.fail("over-issue", "call %d makes it %d live leases of %d slots", c.id, live, claimed.count)
	}
	k.checkOrder(c, claimed, before)
}

// checkOverlap looks for a time at which two leases are live beyond doubt.
func (k *checker) checkOverlap(c *call, l, o *lease) {
	at := max(l.at, o.at)
	if !l.certain(at) || !o.certain(at) {
		return
	}
	if l.position == o.position {
		k.s.fail("two holders", "call %d was granted position %d under fence %d while fence %d has %v left",
			c.id, l.position, l.fence, o.fence, o.promise.Sub(at))
	}
	if l.terms.Named() && o.terms.Named() && l.terms != o.terms {
		k.s.fail("two holders", "call %d was granted under %+v while fence %d is live under %+v", c.id, l.terms, o.fence, o.terms)
	}
}

// checkOrder demands that no permit is taken past a ticket that has waited in
// peace. A ticket is passed over if its peer could have claimed for 1 s and did
// not, which no peer lets happen without a fault, unless its view is late.
func (k *checker) checkOrder(c *call, claimed claim, live int) {
	free := claimed.count - live
	if claimed.ahead == 0 || claimed.healthy < free || k.s.slowest() > 400*time.Millisecond {
		return
	}
	k.s.fail("order of the line", "call %d has taken position %d at fence %d past %d waiting tickets, of which %d waited in peace, the first of them %s, with at most %d permits free",
		c.id, claimed.position, c.answer.Grant.Fence, claimed.ahead, claimed.healthy,
		describeEntry(claimed.first.Entry), free)
}

// checkStands demands that a lease stands in the stream when it is told, unless
// something may have ended it.
func (k *checker) checkStands(c *call, l *lease) {
	if !l.certain(k.s.now) {
		return
	}
	p := k.s.server.truth.pool(l.pool.id)
	e := p.leaseAt(l.hash)
	if e == nil && k.s.plan.Clock > guarded {
		l.lost = true
		return
	}
	if e == nil || e.Slot.Generation != p.config.Config.Generation || !p.registered() {
		k.s.fail("lease ended early", "call %d was told a lease, fence %d, that does not stand in the stream, to last for %v more",
			c.id, l.fence, l.promise.Sub(k.s.now))
	}
}

// look checks, from time to time, that nothing stands still.
func (k *checker) look() {
	s := k.s
	s.after(checkEvery, k.look)
	k.tend()
	waits := k.waits[:0]
	for _, c := range k.waits {
		if c.end == 0 && c.gaveUp == 0 {
			waits = append(waits, c)
			k.checkStall(c)
			k.checkPassedOver(c)
		}
	}
	clear(k.waits[len(waits):])
	k.waits = waits
}

// doubtful is for how long a borrow waits at most for claims that may be withdrawn,
// before it is refused.
const doubtful = 1500 * time.Millisecond

// checkStall demands that a slot is not left free while a caller waits for it.
func (k *checker) checkStall(c *call) {
	s := k.s
	p := s.server.truth.pool(c.facts.pool.id)
	bound := 500*time.Millisecond + 8*s.slowest()
	if !s.plan.Calm() {
		bound += 2*time.Second + time.Duration(len(p.tickets))*1200*time.Millisecond
	}
	t := c.target
	if t.named && p.registered() && p.config.Config.Terms != t.terms { // it is refused when no claim is in doubt
		bound += doubtful
	}
	since := max(c.start, p.changed)
	if since.Add(bound) > s.now || !s.calm.by(since) || c.node.pauses > 0 {
		return
	}
	if t.named && !p.registered() {
		s.fail("stall", "call %d of %s has waited for %v for a name that is not registered", c.id, c.client, s.now.Sub(c.start))
	}
	if free := p.count() - len(p.slots); free > 0 {
		s.fail("stall", "call %d of %s has waited for %v, and %d of %d slots have been free for %v",
			c.id, c.client, s.now.Sub(c.start), free, p.count(), s.now.Sub(since))
	}
}
