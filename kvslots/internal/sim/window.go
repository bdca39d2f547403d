package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// window records the states that a pool had in the stream between a call's start and
// its answer. The answer must be right for one of them.
type window struct {
	seen          bool
	states        []*poolState // see needsStates
	minFree       int          // minimum of the slots that no lease, ticket or other call claimed
	maxRivals     int          // maximum of the other calls that wanted a slot and had neither slot nor ticket
	counts        minMax       // the pool's size
	taken         minMax       // slots with an entry
	waiting       minMax       // tickets
	wasAbsent     bool         // the pool did not exist at some time
	wasPresent    bool         // the pool existed at some time
	wasOut        bool         // something was out of service at some time
	otherTerms    bool         // the pool was in use under terms other than the call's
	configChanged bool         // the pool's configuration changed
	most          totals       // the most of everything in the stream that is capped
	revision      uint64
}

type minMax struct{ min, max int }

func (s *minMax) add(n int, first bool) {
	if first {
		s.min, s.max = n, n
	}
	s.min, s.max = min(s.min, n), max(s.max, n)
}

func (s minMax) has(n int) bool { return s.min <= n && n <= s.max }

// totals are numbers of what is capped in all pools together: registered pools, names in
// use, client sessions, and those of one origin; and the names that one session uses,
// and those that one origin uses.
type totals struct{ pools, locks, sessions, ofOrigin, locksOfSession, locksOfOrigin int }

// share returns what the pool contributes to the totals.
func (p *poolTruth) share() (n totals) {
	switch {
	case !p.registered():
	case !p.config.Config.Named():
		n.pools = 1
	case p.inForce()+len(p.tickets)+len(p.config.Config.Out) > 0:
		n.locks = 1
	}
	return n
}

// recount updates the totals for one pool.
func (t *truth) recount(p *poolTruth) {
	was, now := p.counted, p.share()
	t.totals.pools += now.pools - was.pools
	t.totals.locks += now.locks - was.locks
	p.counted = now
}

// observeTotals adds the present totals to the windows of all calls, if a cap needs them.
func (t *truth) observeTotals() {
	if c := t.s.plan.Caps; c.Pools+c.Locks+c.Sessions+c.SessionsPerOrigin+c.LocksPerSession+c.LocksPerOrigin == 0 {
		return
	}
	n := t.totals
	origins := map[entry.Hash]int{}
	for _, e := range t.sessions {
		if e.Session.Kind == entry.SessionClient {
			n.sessions++
			origins[e.Session.Origin]++
		}
	}
	t.s.check.caps.observe(n)
	t.s.check.caps.observeOrigins(origins)
	names := t.namesByHolder()
	t.s.check.caps.observeShares()
	for _, c := range t.s.check.openCalls {
		switch r := c.request.(type) {
		case peer.CreateSession:
			n.ofOrigin = origins[r.Origin]
		case peer.Acquire:
			n.locksOfSession, n.locksOfOrigin = names[r.Session], names[t.originOf(r.Session, r.Origin)]
		case peer.SetOut:
			n.locksOfOrigin = names[r.Origin]
		case peer.Enqueue:
			n.locksOfSession, n.locksOfOrigin = names[r.Session], names[t.originOf(r.Session, entry.Hash{})]
		}
		most := &c.window.most
		most.pools, most.locks = max(most.pools, n.pools), max(most.locks, n.locks)
		most.sessions, most.ofOrigin = max(most.sessions, n.sessions), max(most.ofOrigin, n.ofOrigin)
		most.locksOfSession, most.locksOfOrigin = max(most.locksOfSession, n.locksOfSession), max(most.locksOfOrigin, n.locksOfOrigin)
	}
}

// observe adds the present state of the pool.
func (w *window) observe(p *poolTruth, c *call, pending int) {
	first := !w.seen
	w.seen = true
	if p.pends(c) {
		pending--
	}
	w.maxRivals = max(w.maxRivals, pending)
	otherTerms := c.target.named && p.registered() && p.config.Config.Terms != c.target.terms
	free := p.free() - len(p.tickets) - pending
	if otherTerms { // no slot of the name is for the call until the name was closed and registered anew
		free = 0
	}
	if first || free < w.minFree {
		w.minFree = free
	}
	w.counts.add(p.size(), first)
	w.taken.add(len(p.slots), first)
	w.waiting.add(len(p.tickets), first)
	w.wasOut = w.wasOut || len(p.config.Config.Out) > 0
	if p.registered() {
		w.wasPresent = true
	} else {
		w.wasAbsent = true
	}
	if !first && w.revision != p.config.Revision {
		w.configChanged = true
	}
	w.revision = p.config.Revision
	if otherTerms && (p.count() > 0 && p.inForce()+len(p.tickets) > 0 || len(p.config.Config.Out) > 0 || w.configChanged) {
		w.otherTerms = true
	}
}
