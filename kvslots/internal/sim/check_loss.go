package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// lossChecker checks what the stream holds after a loss of data and after a restart. It records
// what each loss has concerned: the checks of all else go on.
type lossChecker struct {
	*checker
	count        uint64                 // number of losses so far
	lossUnderWay bool                   // the stream is losing data at this moment
	at           map[entry.Hash]Instant // by pool and by session: when the stream last lost data of it
	ofKeys       map[entry.Key]Instant  // the same by key
}

// standing is what the stream has: the entry of each key, which may be a marker.
type standing map[entry.Key]*entry.Entry

func (v *server) standing() standing {
	all := standing{}
	for _, m := range v.stream.All() {
		e := m.Entry()
		all[e.Key] = &e
	}
	return all
}

func (s standing) revision(key entry.Key) uint64 {
	if e := s[key]; e != nil {
		return e.Revision
	}
	return 0
}

func sessionsOf(e *entry.Entry) []entry.Hash {
	switch {
	case e.Marker:
	case e.Key.Kind == entry.Slot:
		return []entry.Hash{e.Slot.Session}
	case e.Key.Kind == entry.Ticket:
		w := &ticketTruth{Entry: e}
		return []entry.Hash{w.holder(), w.server()}
	}
	return nil
}

func (k *lossChecker) beforeLoss() standing {
	k.s.server.truth.catchUp()
	return k.s.server.standing()
}

// note records what a loss has concerned. If the latest configuration of a pool was lost, the
// pool was, since the stream keeps no earlier one.
func (k *lossChecker) note(before standing) {
	after, now := k.s.server.standing(), k.s.now
	for _, one := range [2]standing{before, after} {
		for key := range one {
			if before.revision(key) == after.revision(key) {
				continue
			}
			k.ofKeys[key] = now
			if key.Kind == entry.Session {
				k.at[key.Session] = now
			} else if key.Kind != entry.Barrier {
				k.at[key.Pool] = now
			}
		}
	}
	for _, one := range [2]standing{before, after} {
		for _, e := range one {
			k.applied(e)
		}
	}
}

// applied records that a pool has an entry of a session that the stream has lost. A peer that has
// not noticed may have written it later.
func (k *lossChecker) applied(e *entry.Entry) {
	if k.lastLoss == 0 {
		return
	}
	for _, session := range sessionsOf(e) {
		if at := k.at[session]; at > k.at[e.Key.Pool] {
			k.at[e.Key.Pool] = at
		}
	}
}

var ofAll = []error{
	peer.ErrMaxPools, peer.ErrMaxLocks, peer.ErrMaxSessions, peer.ErrMaxSessionsPerOrigin, peer.ErrMaxLocksPerSession, peer.ErrMaxLocksPerOrigin, peer.ErrMaxTombstones,
}

// of returns when the stream last lost data that a call depends on; 0: never.
func (k *lossChecker) of(c *call) Instant {
	if c.target.pool.IsZero() && c.target.session.IsZero() || isAny(c.answer.Err, ofAll...) {
		return k.lastLoss
	}
	return max(k.at[c.target.pool], k.at[c.target.session])
}

func (k *lossChecker) afterLoss(before standing) {
	t := k.s.server.truth
	t.catchUp()
	k.lastLoss = k.s.now
	k.count++
	k.note(before)
	k.s.faultState.disturb(k.s.now.Add(12 * time.Second)) // a peer rebuilds its view at most once in 10 s
	for _, n := range k.s.nodes {
		if n.peer != nil {
			n.rebuildsAtLoss = n.peer.Counters().Rebuilds
		}
	}
	for _, p := range k.pools {
		if k.at[p.id] < k.s.now {
			continue
		}
		now := t.pool(p.id)
		ticketed := map[entry.Hash]bool{} // leases whose tickets have come back: they may be granted again
		for _, t := range now.tickets {
			ticketed[t.Ticket.Lease] = true
		}
		for _, l := range p.leases {
			e := now.leaseAt(l.hash)
			if e == nil || l.overSince < never || ticketed[l.hash] || e.Revision != before.revision(e.Key) || !now.registered() || e.Slot.Generation != now.config.Config.Generation {
				l.uncertain, l.overSince, l.returned = true, never, false // the write that ended it may be lost, too
			}
		}
		p.adminUntil = max(p.adminUntil, k.s.now.Add(maxLateEffect))
	}
	for hash, s := range k.sessions {
		if k.at[hash] == k.s.now {
			s.aliveUntil = min(s.aliveUntil, k.s.now)
			s.goneSince = never
		}
		for pool, p := range s.places {
			if k.at[pool] == k.s.now || k.at[hash] == k.s.now {
				p.state = placeUnknown
			}
		}
	}
}

// onReread checks, after the stream was read anew because a server restarted, that
// nothing has come back which clients know to be over.
func (k *lossChecker) onReread() {
	if k.lossUnderWay || k.s.server.clockWentBack {
		return
	}
	t := k.s.server.truth
	for _, p := range k.pools {
		now := t.pool(p.id)
		for _, l := range p.leases {
			if l.overSince == never || l.uncertain || k.at[p.id] > l.claimedAt {
				continue
			}
			e := now.leaseAt(l.hash)
			if e != nil && k.outlivesMoment(e) && e.Slot.Generation == now.config.Config.Generation && now.registered() {
				k.s.fail("revived", "a lease that had ended, fence %d, is in the stream again: %s", l.fence, describeEntry(e))
			}
		}
	}
	for hash, s := range k.sessions {
		if e, ok := t.sessions[hash]; ok && k.outlivesMoment(e) && s.goneSince < k.s.now && k.at[hash] == 0 {
			k.s.fail("revived", "a session that had ended is in the stream again: %s", describeEntry(e))
		}
	}
}

func (k *lossChecker) outlivesMoment(e *entry.Entry) bool {
	return e.TTL == 0 || k.s.server.ageOf(e) < e.TTL-time.Second
}
