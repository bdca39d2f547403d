package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// capTime is how long a cap must have been reached for no peer to exceed it, beyond the delays
// of the network. Peers that decide in the same instant may exceed a cap, and send what they have decided for 5 s.
const capTime = 5 * time.Second

// capChecker checks that nothing is added beyond a cap, other than by peers that decide at
// the same time.
type capChecker struct {
	*checker
	reached totals // as Instants: since when each cap has been reached; 0: it is not
	before  totals
	usedAt  map[entry.Hash]Instant // when each name was in use last
	idle    map[entry.Hash]bool    // the names that were not in use at the last entry
	shares  map[entry.Hash]share   // by session and by origin
	origins map[entry.Hash]share   // the sessions of each
}

func (k *capChecker) observe(now totals) {
	caps := &k.s.plan.Caps
	k.one("registered pools", k.before.pools, now.pools, caps.Pools, &k.reached.pools)
	again := 0
	if caps.Locks > 0 {
		now.locks, again = k.namesInUse()
	}
	k.one("names in use", k.before.locks+again, now.locks, caps.Locks, &k.reached.locks)
	k.one("client sessions", k.before.sessions, now.sessions, caps.Sessions, &k.reached.sessions)
	k.before = now
}

// namesInUse returns the number of names with a slot that is lent, or a ticket that stands,
// and how many of them are so again: a peer may not have seen yet that they were not.
func (k *capChecker) namesInUse() (n, again int) {
	t := k.s.server.truth
	for _, p := range t.pools {
		if p.registered() && p.config.Config.Named() && len(p.config.Config.Out) > 0 { // in use for the peers, whatever the cap
			k.usedAt[p.id] = k.s.now
		} else if p.registered() && p.config.Config.Named() && t.inUse(p) {
			n++
			if at, used := k.usedAt[p.id]; used && k.idle[p.id] && at.Add(time.Second) >= k.s.now {
				again++
			}
			k.usedAt[p.id], k.idle[p.id] = k.s.now, false
		} else {
			k.idle[p.id] = true
		}
	}
	return n, again
}

func (t *truth) inUse(p *poolTruth) bool {
	for _, e := range p.slots {
		if t.holds(p, e) {
			return true
		}
	}
	for _, w := range p.tickets {
		if p.stands(w) && t.lives(w) {
			return true
		}
	}
	return false
}

func (k *capChecker) one(what string, before, now, most int, reached *int) {
	if most == 0 || now < most {
		*reached = 0
		return
	}
	at := Instant(*reached)
	if at == 0 || k.lastLoss > at {
		*reached, at = int(k.s.now), k.s.now
	}
	if now > before && before >= most && at.Add(capTime+2*k.s.maxLatency()) < k.s.now && k.s.faultState.settledAt(at) {
		k.s.fail("caps", "there are %d %s, of %d at most, although these were reached %v ago", now, what, most, k.s.now.Sub(at))
	}
}
