package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxLateEffect is how long after the end of a call with unknown outcome its writes may
// take effect.
const maxLateEffect = 30 * time.Second

func (k *checker) answeredPool(c *call) {
	p := c.facts.pool
	if e := c.facts.ending; e != nil {
		if e.until = c.end; c.unknown() {
			e.until = c.end.Add(maxLateEffect)
		}
	}
	switch r := c.request.(type) {
	case peer.Register:
		k.administered(c)
		pool := k.s.server.truth.pool(p.id)
		removed := pool.removedAt > c.start // as idle, before the answer arrived
		if c.answer.Err == nil && k.wasAlone(c) && pool.size() != r.Count && !removed {
			k.wrong(c, "the pool has another count")
		}
		k.inspected(c)
	case peer.Delete:
		k.administered(c)
		if c.answer.Err == nil && k.wasAlone(c) && k.s.server.truth.pool(p.id).registered() {
			k.wrong(c, "the pool is still registered")
		}
		k.deleted(c)
	case peer.Evict:
		k.evicted(c, r)
	case peer.SetOut:
		k.outSet(c, r)
	case peer.ReadPool:
		k.poolRead(c)
	case peer.ReadPlace:
		k.placeRead(c, r)
	case peer.ReleaseOwned:
		k.released(c, r)
	}
}

// unregistered checks the write of a peer that unregisters an idle pool. What was in the
// stream before the closing must have ended since, and the last use be long ago.
func (k *checker) unregistered(p *poolTruth, before, after *entry.Entry) {
	if !after.Marker || !before.Config.Closing || before.Config.Named() || k.mayDelete(p.id) {
		return
	}
	k.s.met.add("pool unregistered")
	if len(before.Config.Out) > 0 {
		k.s.fail("unregistered", "the pool has to remember what is out of service: %+v", before.Config.Out)
	}
	p.removedAt = k.s.now
	for _, e := range p.slots {
		if e.Revision < before.Revision && e.Slot.Generation == before.Config.Generation {
			k.s.fail("unregistered", "the pool has a slot: %s", describeEntry(e))
		}
	}
	for _, t := range p.tickets {
		if t.place < before.Revision && p.stands(t) && k.s.server.truth.lives(t) && !k.s.server.mayRevive(p.id) {
			k.s.fail("unregistered", "the pool has a ticket: %s", describeEntry(t.Entry))
		}
	}
	if idle := k.s.now.Sub(p.idleFrom); idle < k.s.plan.PoolIdle {
		k.s.fail("unregistered", "the pool was idle for %v only", idle)
	}
	if idle := k.s.now.Sub(p.calledAt); idle < k.s.plan.PoolIdle { // the call may have kept the mark of the closing
		k.s.fail("unregistered", "the pool was registered %v ago", idle)
	}
}

// mayDelete reports whether a Delete may be taking effect now, which also ends a closing.
func (k *checker) mayDelete(pool entry.Hash) bool {
	for _, c := range k.openCalls {
		if r, deletes := c.request.(peer.Delete); deletes && r.Pool == pool {
			return true
		}
	}
	return k.pool(pool).adminUntil > k.s.now
}

func (k *checker) administered(c *call) {
	p := c.facts.pool
	p.adminCalls--
	until := c.end
	if c.unknown() {
		until = until.Add(maxLateEffect)
	}
	if c.start < p.adminUntil {
		c.facts.poolShared = true
	}
	p.adminUntil = max(p.adminUntil, until)
}

// wasAlone reports whether no other registration or deletion can have taken effect
// during the call.
func (k *checker) wasAlone(c *call) bool {
	return c.facts.pool.adminCalls == 0 && !c.facts.poolShared && !k.mayReflectLoss(c)
}

func (k *checker) deleted(c *call) {
	if c.answer.Err != nil || k.mayReflectLoss(c) {
		return
	}
	for _, l := range c.facts.pool.leases {
		if l.grantedAt < c.start {
			l.overSince = min(l.overSince, c.end)
		}
	}
}

func (k *checker) inspected(c *call) {
	if c.answer.Err != nil || k.mayReflectLoss(c) {
		return
	}
	a, w := c.answer.Detail.State, &c.window
	least := 0
	for _, l := range c.facts.certainLeases {
		if l.certainlyLive(c.end) {
			least++
		}
	}
	switch {
	case !w.wasPresent:
		k.wrong(c, "the pool was not registered")
	case !w.counts.has(a.Count):
		k.wrong(c, fmt.Sprintf("the count was %+v", w.counts))
	case a.InUse < least || a.InUse > w.taken.max:
		k.wrong(c, fmt.Sprintf("at least %d leases were live, and at most %d slots taken", least, w.taken.max))
	case a.Waiting < 0 || a.Waiting > w.waiting.max && !k.s.server.mayRevive(c.target.pool):
		k.wrong(c, fmt.Sprintf("at most %d tickets stood in line", w.waiting.max))
	}
}

func (k *checker) released(c *call, r peer.ReleaseOwned) {
	if c.unknown() || k.mayReflectLoss(c) {
		return
	}
	for _, l := range c.facts.certainLeases {
		if !l.sessionLives(c.end) || c.end >= l.promisedUntil {
			continue
		}
		mine := r.Force || l.owner == r.Owner
		switch {
		case mine && l.endCalls == 1 && c.answer.Err != nil:
			k.wrong(c, fmt.Sprintf("%s held the lock all the time", l.owner))
		case !mine && l.certainlyLive(c.end) && !isAny(c.answer.Err, peer.ErrNotOwner, peer.ErrAlreadyReleased):
			k.wrong(c, fmt.Sprintf("%s held the lock all the time", l.owner))
		case mine && c.answer.Err == nil:
			l.overSince = min(l.overSince, c.end)
		}
	}
	k.marks.releasedOwned(c, r)
	w := &c.window
	if c.answer.Err == nil && w.taken.max == 0 {
		k.wrong(c, "the lock was free")
	}
}
