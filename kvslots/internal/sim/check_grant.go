package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// granted checks a grant, if the answer is one, against the other leases, and against the
// pool at the moment of the claim, whose entry the fence identifies.
func (k *checker) granted(c *call, hash entry.Hash) {
	if c.answer.Err != nil || c.answer.Queued {
		return
	}
	g, p := c.answer.Grant, c.facts.pool
	k.s.met.add("granted")
	known := p.byHash[hash]
	if known != nil && k.s.plan.Clients.Keyed > 0 && g.Fence > known.fence && !known.certainlyLive(k.s.now) {
		known = nil // a repeat was answered with the first claim, and has returned it; the locks of one request have one lease
	}
	if known != nil {
		k.grantedAgain(c, known)
		return
	}
	l := k.newLease(c, hash)
	claimed, ok := k.s.server.truth.claimOf(p.id, g.Position, g.Fence)
	if ok {
		claimed.doubtful = false
	}
	switch {
	case k.mayReflectLoss(c):
		l.uncertain = true
	case !ok || claimed.pool.id != p.id || claimed.position != g.Position || claimed.lease != hash:
		k.wrong(c, "the stream has no such claim")
	case g.Resumed && claimed.void: // nobody has withdrawn it, and now it fits
		k.resumedVoid(c, l)
	default:
		l.claimedAt, l.revision = claimed.at, claimed.revision
		l.uncertain = claimed.at < c.node.suspendedUntil // the peer cannot know how long it was suspended
		k.checkStands(c, l)
		k.checkClaim(c, l, claimed)
	}
	k.checkKey(c, l)
	p.leases = append(p.leases, l)
	p.byHash[hash], l.told = l, 1
}

func (k *checker) newLease(c *call, hash entry.Hash) *lease {
	g := c.answer.Grant
	l := &lease{
		request: c.target.request, pool: c.facts.pool, hash: hash, position: g.Position, fence: g.Fence, session: c.facts.session,
		claimedAt: k.s.now, grantedAt: k.s.now, promisedAt: k.s.now, promisedUntil: c.node.simTime(g.At).Add(g.TTL), mayEndFrom: never, overSince: never,
	}
	switch r := c.request.(type) {
	case peer.Borrow:
		l.label = r.Label
	case peer.Acquire:
		l.owner, l.terms, l.label = r.Owner, terms(r.Resource), r.Label
	case peer.Enqueue:
		l.terms = terms(r.Resource)
	}
	if ttl := c.target.ttl; ttl > 0 {
		k.promised(c, g, ttl)
	}
	if l.session != nil && l.session.endingSince < never {
		l.mayEnd(l.session.endingSince)
	}
	for _, e := range l.pool.endings {
		if e.until >= c.start && e.ends(l) {
			l.mayEnd(max(e.from, c.start))
		}
	}
	return l
}

func (k *checker) grantedAgain(c *call, l *lease) {
	g := c.answer.Grant
	l.told++
	if _, awaits := c.request.(peer.Await); !awaits && c.facts.key == nil {
		k.wrong(c, "the lease was granted before")
		return
	}
	if k.mayReflectLoss(c) {
		l.uncertain = true
	}
	if l.uncertain { // its ticket may have come back, and been served again
		l.fence, l.position, l.overSince, l.returned = g.Fence, g.Position, never, false
		return
	}
	if g.Fence != l.fence || g.Position != l.position {
		k.wrong(c, "the lease has another fence or position")
	}
	if l.overSince < c.start {
		k.wrong(c, "the lease had ended before")
	}
	if c.facts.key == nil || l.grantedAt < c.start { // otherwise both calls were answered with the claim
		k.checkRenewal(c)
	}
	if until := c.node.simTime(g.At).Add(g.TTL); until > l.promisedUntil && l.renewedUntil < c.start { // otherwise a renewal may have shortened it
		l.promisedUntil, l.promisedAt = until, c.end
	}
}

func (k *checker) checkClaim(c *call, l *lease, claimed *claim) {
	// A peer may grant a void claim that another peer made without a ticket: after a
	// second the claim counts as valid, and a wait at another peer reports it.
	_, awaits := c.request.(peer.Await)
	late := awaits && claimed.ticket == 0
	count := claimed.count
	if late { // the configuration that the peer sent ahead of its claim may have come behind it
		count = max(count, k.s.server.truth.pool(l.pool.id).count())
	}
	if l.position >= count {
		k.s.fail("over-issue", "call %d was granted position %d of %d", c.id, l.position, count)
	}
	if claimed.isOut && !late {
		k.s.fail("out of service", "call %d was granted position %d, which was out of service", c.id, l.position)
	}
	if !claimed.ticketStood {
		k.s.fail("ticket", "call %d was granted a claim for a ticket that was not in line", c.id)
	}
	early := k.s.plan.Clock > maxGuardedClock && k.s.server.stream.Met(stream.EarlyExpiry) > 0 // the view may have what the server has dropped
	if claimed.freeBelow > claimed.ticketsAhead && !late && !early {
		k.s.fail("lowest free", "call %d was granted position %d when %d below were free and %d tickets stood before it",
			c.id, l.position, claimed.freeBelow, claimed.ticketsAhead)
	}
	live, before := 1, 0
	for _, o := range l.pool.leases {
		lost := o.uncertain && k.s.server.clockWentBack // only the clock can know of a lease that the stream has lost
		if o.position == l.position && o.grantedAt < l.claimedAt && o.fence >= l.fence && !lost && k.s.plan.Clock <= maxGuardedClock {
			k.s.fail("fences", "fence %d was granted before fence %d was claimed", o.fence, l.fence)
		}
		if !o.certainlyLive(l.claimedAt) {
			k.checkOverlap(c, l, o)
			continue
		}
		live++
		if o.revision < l.revision { // otherwise it was claimed later in the same instant
			before++
		}
		k.checkOverlap(c, l, o)
	}
	if live+claimed.idleOut > count && !(late && live <= count) {
		k.s.fail("over-issue", "with the grant of call %d, %d leases are live, of %d slots", c.id, live, count)
	}
	k.checkOrder(c, claimed, before)
}

// checkOverlap fails the run if two leases that exclude each other are certainly live
// at the same time.
func (k *checker) checkOverlap(c *call, l, o *lease) {
	at := max(l.claimedAt, o.claimedAt)
	if !l.certainlyLive(at) || !o.certainlyLive(at) {
		return
	}
	if l.position == o.position {
		k.s.fail("two holders", "call %d was granted position %d under fence %d while fence %d has %v left",
			c.id, l.position, l.fence, o.fence, o.promisedUntil.Sub(at))
	}
	if l.terms.Named() && o.terms.Named() && l.terms != o.terms {
		k.s.fail("two holders", "call %d was granted under %+v while fence %d is live under %+v", c.id, l.terms, o.fence, o.terms)
	}
}

// checkOrder fails the run if a claim took a permit ahead of an undisturbed ticket. The
// peers pass a ticket over when its peer could have claimed for 1 s and did not, which
// happens only with a fault or a late view.
func (k *checker) checkOrder(c *call, claimed *claim, live int) {
	free := claimed.count - claimed.idleOut - live
	if claimed.ticketsAhead == 0 || claimed.undisturbed < free || k.s.maxLatency() > 400*time.Millisecond {
		return
	}
	k.s.fail("order of the line", "call %d has taken position %d at fence %d ahead of %d tickets, of which %d were undisturbed, the first of them %s, with at most %d permits free",
		c.id, claimed.position, c.answer.Grant.Fence, claimed.ticketsAhead, claimed.undisturbed,
		describeEntry(claimed.firstUndisturbed.Entry), free)
}

// checkStands fails the run if a lease is granted that is not in the stream, although
// nothing can have ended it.
func (k *checker) checkStands(c *call, l *lease) {
	if !l.certainlyLive(k.s.now) {
		return
	}
	p := k.s.server.truth.pool(l.pool.id)
	e := p.leaseAt(l.hash)
	if e == nil && k.s.plan.Clock > maxGuardedClock {
		l.uncertain = true
		return
	}
	if e == nil || e.Slot.Generation != p.config.Config.Generation || !p.registered() {
		k.s.fail("lease ended early", "call %d was granted a lease, fence %d, for %v more, which is not in the stream",
			c.id, l.fence, l.promisedUntil.Sub(k.s.now))
	}
}

// checkProgress checks every 250 ms that no waiting call is stuck.
func (k *checker) checkProgress() {
	s := k.s
	s.after(checkEvery, k.checkProgress)
	k.lines.updateCleaned()
	k.abandoned.check()
	k.waitingCalls = slices.DeleteFunc(k.waitingCalls, func(c *call) bool { return c.end != 0 || c.gaveUp != 0 || c.decided != 0 })
	for _, c := range k.waitingCalls {
		k.checkStall(c)
		k.lines.checkPassedOver(c)
	}
}

// maxDoubtTime bounds how long a borrow that will be refused waits for doubtful claims.
const maxDoubtTime = 1500 * time.Millisecond

func (k *checker) checkStall(c *call) {
	s := k.s
	p := s.server.truth.pool(c.facts.pool.id)
	bound := 500*time.Millisecond + 8*s.maxLatency()
	if !s.plan.FaultFree() {
		bound += 2*time.Second + time.Duration(len(p.tickets))*1200*time.Millisecond
	}
	t := c.target
	if t.named && p.registered() && p.config.Config.Terms != t.terms { // it is refused once no claim is in doubt
		bound += maxDoubtTime
	}
	// A peer that has just loaded its view waits for a second until the claims that it found
	// cannot be withdrawn any more, and for another one for claims above these.
	since := max(c.start, p.changed, c.node.startedAt.Add(2*time.Second), s.faultState.settledFrom())
	if since.Add(bound) > s.now || s.faultState.active > 0 || c.node.pauses > 0 {
		return
	}
	if t.named && !p.registered() {
		s.fail("stall", "call %d of %s has waited for %v for a name that is not registered", c.id, c.client, s.now.Sub(c.start))
	}
	if free := p.free(); free > 0 {
		s.fail("stall", "call %d of %s has waited for %v, and %d of %d slots have been free for %v",
			c.id, c.client, s.now.Sub(c.start), free, p.size(), s.now.Sub(since))
	}
}
