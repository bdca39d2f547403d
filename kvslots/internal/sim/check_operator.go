package sim

import (
	"fmt"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

func (k *checker) evicted(c *call, r peer.Evict) {
	l := c.facts.lease
	k.doubtPlaces(r.Pool)
	if c.unknown() || k.mayReflectLoss(c) {
		return
	}
	switch {
	case c.answer.Err == nil:
		if h := c.answer.Detail.Holders[0]; h.Position != r.Position || h.Fence != r.Fence {
			k.wrong(c, fmt.Sprintf("it has ended %+v", h))
		}
		k.s.met.add("lease evicted")
		if l != nil && c.facts.over && !l.uncertain {
			k.wrong(c, "the lease had ended before")
		}
		if l != nil {
			l.overSince = min(l.overSince, c.end)
		}
	case l != nil && c.facts.certain && l.endCalls == 1 && c.end < l.promisedUntil && l.sessionLives(c.end):
		k.wrong(c, "the lease was live all the time")
	}
}

// doubtPlaces records that sessions may have lost what they have enqueued for in a pool: the lease
// that is ended may be of a session that has not called Await.
func (k *checker) doubtPlaces(pool entry.Hash) {
	for _, s := range k.sessions {
		if p := s.places[pool]; p != nil {
			p.state, s.unsure[pool] = placeUnknown, k.s.now.Add(maxLateEffect)
		}
	}
	for _, c := range k.openCalls {
		if c.target.pool == pool {
			c.facts.place.state = placeUnknown
		}
	}
}

func (k *checker) outSet(c *call, r peer.SetOut) {
	p := c.facts.pool
	p.setOuts--
	alone := p.setOuts == 0 && p.outUntil < c.start && p.adminCalls == 0 && p.adminUntil < c.start
	if p.outUntil = max(p.outUntil, c.end); c.unknown() {
		p.outUntil = c.end.Add(maxLateEffect)
	}
	truth := k.s.server.truth.pool(p.id)
	if c.answer.Err == nil && alone && !k.mayReflectLoss(c) && truth.registered() && !truth.config.Config.Named() && truth.isOut(r.Position) == r.InService {
		k.wrong(c, fmt.Sprintf("out of service: %+v", truth.config.Config.Out))
	}
	if isAny(c.answer.Err, peer.ErrNoPosition) && c.window.seen && r.Position < c.window.counts.min && !k.mayReflectLoss(c) {
		k.wrong(c, fmt.Sprintf("the pool had %d slots at least", c.window.counts.min))
	}
}

// reconfigured checks that a write of a pool's configuration keeps what is out of service, unless
// an operator may have changed that.
func (k *checker) reconfigured(p *poolTruth, before, after *entry.Entry) {
	pool := k.pool(p.id)
	if after.Marker || pool.setOuts > 0 || k.s.now <= pool.outUntil || k.s.server.mayRevive(p.id) {
		return
	}
	if !slices.Equal(before.Config.Out, after.Config.Out) {
		k.s.fail("out of service", "%+v was out of service, and now %+v, and nobody has asked for that", before.Config.Out, after.Config.Out)
	}
}

// poolRead checks the leases and the line of a pool that was read. answeredReading checks the rest.
func (k *checker) poolRead(c *call) {
	k.inspected(c)
	if c.answer.Err != nil || k.mayReflectLoss(c) || k.losses.of(c) > c.start {
		return
	}
	d := c.answer.Detail
	most := c.request.(peer.ReadPool).MaxHolders
	all := most > 0 && d.NextFrom == 0
	if most > 0 && all != (d.InUse <= len(d.Holders)) {
		k.wrong(c, fmt.Sprintf("it lists %d leases, and says that these are all: %t", len(d.Holders), all))
	}
	for i, w := range d.Waiters {
		if w.Place != i+1 {
			k.wrong(c, fmt.Sprintf("the place of %+v is %d", w, i+1))
		}
	}
	for _, l := range c.facts.certainLeases {
		if !all || !l.certainlyLive(c.end) {
			continue
		}
		if !slices.ContainsFunc(d.Holders, func(h reads.Holder) bool {
			return h.Position == l.position && h.Fence == l.fence && (h.Label == l.label || l.label == "")
		}) {
			k.wrong(c, fmt.Sprintf("position %d with fence %d was held all the time by %q", l.position, l.fence, l.label))
		}
	}
}

func (k *checker) leaseRead(c *call) {
	l := c.facts.lease
	switch {
	case l == nil || c.unknown() || k.mayReflectLoss(c) || l.uncertain:
	case c.answer.Err == nil && c.answer.Detail.Holders[0].Fence != l.fence:
		k.wrong(c, fmt.Sprintf("the lease has fence %d", l.fence))
	case c.answer.Err != nil && c.facts.certain && l.certainlyLive(c.end):
		k.wrong(c, "the lease was live all the time")
	}
}

func (k *checker) placeRead(c *call, r peer.ReadPlace) {
	if c.answer.Err != nil || k.mayReflectLoss(c) {
		return
	}
	d := c.answer.Detail
	for _, h := range d.Holders {
		if l := c.facts.pool.leaseWith(h.Position, h.Fence); l != nil && l.request != r.Request {
			k.wrong(c, "the lease was granted for another request key")
		}
	}
	if len(d.Waiters) > 0 && d.Waiters[0].Place > c.window.waiting.max && !k.s.server.mayRevive(r.Pool) {
		k.wrong(c, fmt.Sprintf("at most %d tickets stood in line", c.window.waiting.max))
	}
}
