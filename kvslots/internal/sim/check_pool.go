package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// lateEffect is for how long a call of unknown outcome may take effect, or be
// undone.
const lateEffect = 30 * time.Second

// answeredPool holds answers about a whole pool, or about an owned lock, against
// what is known.
func (k *checker) answeredPool(c *call) {
	p := c.facts.pool
	if e := c.facts.ends; e != nil {
		if e.until = c.end; c.unknown() {
			e.until = c.end.Add(lateEffect)
		}
	}
	switch r := c.request.(type) {
	case peer.Inspect:
		k.inspected(c)
	case peer.Register:
		k.administered(c)
		if c.answer.Err == nil && k.alone(c) && k.s.server.truth.pool(p.id).count() != r.Count {
			k.wrong(c, "the pool has another count")
		}
		k.inspected(c)
	case peer.Delete:
		k.administered(c)
		if c.answer.Err == nil && k.alone(c) && k.s.server.truth.pool(p.id).registered() {
			k.wrong(c, "the pool is still registered")
		}
		k.deleted(c)
	case peer.ReleaseOwned:
		k.released(c, r)
	case peer.InspectOwned:
		k.inspectedOwned(c)
	}
}

func (k *checker) administered(c *call) {
	p := c.facts.pool
	p.admins--
	until := c.end
	if c.unknown() {
		until = until.Add(lateEffect)
	}
	if c.start < p.admin {
		c.facts.gone = true // it was not alone
	}
	p.admin = max(p.admin, until)
}

// alone reports whether no other registration or deletion can have taken effect
// since the call began.
func (k *checker) alone(c *call) bool {
	return c.facts.pool.admins == 0 && !c.facts.gone && !k.shaken(c)
}

func (k *checker) deleted(c *call) {
	if c.answer.Err != nil {
		return
	}
	for _, l := range c.facts.pool.leases {
		if l.told < c.start {
			l.over = min(l.over, c.end)
		}
	}
}

// inspected holds a pool's state against the stream between question and answer.
func (k *checker) inspected(c *call) {
	if c.answer.Err != nil || k.shaken(c) {
		return
	}
	a, w := c.answer.State, &c.window
	least := 0
	for _, l := range c.facts.leases {
		if l.certain(c.end) {
			least++
		}
	}
	switch {
	case !w.present:
		k.wrong(c, "the pool was not registered")
	case !w.counts.has(a.Count):
		k.wrong(c, fmt.Sprintf("the count was %+v", w.counts))
	case a.InUse < least || a.InUse > w.taken.most:
		k.wrong(c, fmt.Sprintf("at least %d leases were live, and at most %d slots taken", least, w.taken.most))
	case a.Waiting < 0 || a.Waiting > w.waiting.most:
		k.wrong(c, fmt.Sprintf("at most %d tickets stood in line", w.waiting.most))
	}
}

// released holds the answer to an owner that releases a lock against who holds
// it.
func (k *checker) released(c *call, r peer.ReleaseOwned) {
	if c.unknown() || k.shaken(c) {
		return
	}
	for _, l := range c.facts.leases {
		if !l.lasts(c.end) || c.end >= l.promise {
			continue
		}
		mine := r.Force || l.owner == r.Owner
		switch {
		case mine && l.ends == 1 && c.answer.Err != nil:
			k.wrong(c, fmt.Sprintf("%s held the lock all the time", l.owner))
		case !mine && l.certain(c.end) && !isAny(c.answer.Err, peer.ErrNotOwner, peer.ErrAlreadyReleased):
			k.wrong(c, fmt.Sprintf("%s held the lock all the time", l.owner))
		case mine && c.answer.Err == nil:
			l.over = min(l.over, c.end)
		}
	}
	w := &c.window
	if c.answer.Err == nil && w.taken.most == 0 {
		k.wrong(c, "the lock was free")
	}
}

func (k *checker) inspectedOwned(c *call) {
	if c.unknown() || k.shaken(c) {
		return
	}
	a := c.answer.Owned
	for _, l := range c.facts.leases {
		if !l.certain(c.end) {
			continue
		}
		if c.answer.Err != nil || a.Owner != l.owner || a.Fence != l.fence {
			k.wrong(c, fmt.Sprintf("%s held the lock all the time, fence %d", l.owner, l.fence))
		}
	}
	if w := &c.window; c.answer.Err == nil && w.taken.most == 0 {
		k.wrong(c, "the lock was free")
	}
}
