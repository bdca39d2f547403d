package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// survey is what the stream held during a call that reads a pool's state or the
// statistics. The answer must be right for one instant of the call.
type survey struct {
	pools    map[entry.Hash]*poolSurvey
	sessions minMax // client sessions
	seen     bool
}

type poolSurvey struct {
	seen                bool
	registered          minMax  // 1 while it was a registered pool, or a name in use
	count, held, stands minMax  // its size, the slots that were lent, the tickets that stood
	void                int     // the most void claims; held does not count them
	voidSince           Instant // when the first of these was written
}

func isRead(r peer.Request) bool {
	switch r.(type) {
	case peer.ReadStats, peer.ReadPool, peer.ReadPools:
		return true
	}
	return false
}

func (k *checker) beginReading(c *call) {
	if !isRead(c.request) {
		return
	}
	c.facts.survey = &survey{pools: map[entry.Hash]*poolSurvey{}}
	k.surveys = append(k.surveys, c)
	k.observeReading(c)
}

// observeReadings adds the present state to what the calls under way may read: of all
// pools, or of one that has changed.
func (k *checker) observeReadings(changed *poolTruth) {
	for _, c := range k.surveys {
		if changed == nil {
			k.observeReading(c)
		} else {
			c.facts.survey.observe(k.s.server.truth, changed)
		}
	}
}

func (k *checker) observeReading(c *call) {
	r, t := c.facts.survey, k.s.server.truth
	n := 0
	for _, e := range t.sessions {
		if e.Session.Kind == entry.SessionClient {
			n++
		}
	}
	r.sessions.add(n, !r.seen)
	for _, p := range t.pools {
		if c.target.pool.IsZero() || c.target.pool == p.id {
			r.observe(t, p)
		}
	}
	r.seen = true
}

func (r *survey) observe(t *truth, p *poolTruth) {
	o := r.pools[p.id]
	if o == nil {
		o = &poolSurvey{}
		if r.pools[p.id] = o; r.seen {
			o.add(0, 0, 0, 0) // before
		}
	}
	held, void, stands := 0, 0, 0
	for _, e := range p.slots {
		claimed := t.claims[claimKey{e.Key, e.Fence()}]
		switch {
		case !t.holds(p, e):
		case claimed != nil && claimed.void && claimed.lease == e.Slot.Lease && e.Slot.Fence == 0: // a renewed one was granted, maybe after a loss
			since := claimed.at
			if t.s.check.pool(p.id).byHash[e.Slot.Lease] != nil { // granted, by a peer that has not noticed a loss
				since = 1
			}
			if void++; o.voidSince == 0 || since < o.voidSince {
				o.voidSince = since
			}
		default:
			held++
		}
	}
	o.void = max(o.void, void)
	for _, w := range p.tickets {
		switch {
		case !p.registered() || !t.lives(w):
		case p.stands(w):
			stands++
		}
	}
	registered := 0
	if p.registered() && (!p.config.Config.Named() || held+void+stands+len(p.config.Config.Out) > 0) {
		registered = 1
	}
	o.add(registered, p.size(), held, stands)
}

func (o *poolSurvey) add(registered, count, held, stands int) {
	first := !o.seen
	o.seen = true
	o.registered.add(registered, first)
	o.count.add(count, first)
	o.held.add(held, first)
	o.stands.add(stands, first)
}

func (k *checker) answeredReading(c *call) {
	r := c.facts.survey
	if r == nil {
		return
	}
	k.observeReading(c)
	for i, o := range k.surveys {
		if o == c {
			k.surveys = append(k.surveys[:i], k.surveys[i+1:]...)
			break
		}
	}
	if c.answer.Err != nil || k.mayReflectLoss(c) || k.losses.of(c) > c.start {
		return
	}
	if d := c.answer.Detail; d != nil {
		k.checkState(c, c.target.pool, d.State)
		for _, h := range d.Holders {
			k.checkHolder(c, c.target.pool, &h)
		}
		return
	}
	stats := c.answer.Stats
	if stats == nil {
		k.wrong(c, "there are no statistics")
		return
	}
	if _, all := c.request.(peer.ReadStats); all && !r.sessions.has(stats.Sessions) && !k.s.server.mayRevive(entry.Hash{}) {
		k.wrong(c, fmt.Sprintf("there were %+v client sessions, and not %d", r.sessions, stats.Sessions))
	}
	listed := map[entry.Hash]bool{}
	for _, p := range stats.Pools {
		listed[p.Hash] = true
		k.checkState(c, p.Hash, p.State)
	}
	for i := range stats.Names {
		n := &stats.Names[i]
		pool := nameID(n.Dialect, n.Key)
		listed[pool] = true
		k.checkState(c, pool, reads.State{Count: n.Count, InUse: len(n.Holders), Waiting: len(n.Waiters)})
		for _, h := range n.Holders {
			k.checkHolder(c, pool, &h)
		}
	}
	for id, o := range r.pools {
		if o.registered.min > 0 && !listed[id] && !k.s.server.mayRevive(id) {
			k.wrong(c, fmt.Sprintf("pool %s is not listed", short(id)))
		}
	}
}

func (k *checker) checkState(c *call, pool entry.Hash, a reads.State) {
	o := c.facts.survey.pools[pool]
	// The claims that the answer may count: the statistics wait for no claim in doubt, and a state
	// for a second of the claim's age, which is by the leader's clock if the peer has just loaded it.
	void := 0
	if o != nil && (c.target.pool.IsZero() || o.voidSince.Add(rules.StallTime) <= c.decided || k.s.server.clockSteps > 0) {
		void = o.void
	}
	switch {
	case k.s.server.mayRevive(pool):
	case o == nil || o.registered.max == 0 && !k.s.server.truth.pool(pool).registered() &&
		(pool != c.target.pool || !c.window.wasPresent): // an idle name, which counts as none, may have been closed meanwhile
		k.wrong(c, fmt.Sprintf("pool %s was not registered", short(pool)))
	case !o.count.has(a.Count):
		k.wrong(c, fmt.Sprintf("the count of pool %s was %+v, and not %d", short(pool), o.count, a.Count))
	case a.InUse < o.held.min || a.InUse > o.held.max+void:
		k.wrong(c, fmt.Sprintf("of pool %s %+v slots were lent, and not %d", short(pool), o.held, a.InUse))
	case a.Waiting < o.stands.min || a.Waiting > o.stands.max:
		k.wrong(c, fmt.Sprintf("%+v tickets stood in the line of pool %s, and not %d", o.stands, short(pool), a.Waiting))
	}
}

func (k *checker) checkHolder(c *call, pool entry.Hash, h *reads.Holder) {
	claimed, ok := k.s.server.truth.claimOf(pool, h.Position, h.Fence)
	if !ok {
		k.wrong(c, fmt.Sprintf("the stream has no claim of position %d with fence %d", h.Position, h.Fence))
		return
	}
	k.checkTimes(c, claimed, h.Fence, time.Duration(h.Age), time.Duration(h.ExpiresIn))
}

// checkTimes checks the age of a lease that was read, and the rest of its time. Both are
// exact to the delays of the network while there is no fault.
func (k *checker) checkTimes(c *call, claimed *claim, fence uint64, age, endsIn time.Duration) {
	s := k.s
	if !s.faultState.settledAt(claimed.at) || c.node.startedAt > claimed.at {
		return
	}
	exact, doubt := c.decided.Sub(claimed.at), clockMargin+2*s.maxLatency()
	if age > exact+doubt || age < exact-doubt {
		k.wrong(c, fmt.Sprintf("the lease with fence %d is %v old, and not %v", fence, exact, age))
	}
	for _, l := range k.pool(claimed.pool.id).leases {
		if l.fence != fence || l.position != claimed.position || l.promisedAt > c.start || !l.certainlyLive(c.decided) {
			continue
		}
		left := l.promisedUntil.Sub(c.decided)
		if endsIn < left-clockMargin {
			k.wrong(c, fmt.Sprintf("the lease with fence %d was promised for %v more, and not %v", fence, left, endsIn))
		}
	}
}

// confirmed checks that the stream took a write of a presence when a Confirm was answered.
func (k *checker) confirmed(c *call) {
	const before = 500 * time.Millisecond // peer.confirmedFor
	if c.answer.Err != nil || k.lastLoss > c.start {
		return
	}
	if at := k.s.server.truth.presenceAt; at == 0 || at < c.start.Add(-before) {
		k.wrong(c, fmt.Sprintf("no peer has written its presence for %v", c.decided.Sub(at)))
	}
}
