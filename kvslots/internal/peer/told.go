package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// leases is what this peer does with leases that were granted.
type leases struct {
	*keeper
	untold map[entry.Hash]struct{} // leases of this peer's claims with request keys whose callers were not told, until their purges
}

// promiseAnew restarts the ttl of a lease that is told now. It returns false if less than a second is left.
func (p *leases) promiseAnew(a *Answer) bool {
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 {
		return true
	}
	ttl := remainingTTL(g.ttl, p.now().Sub(g.sent))
	if ttl < time.Second {
		return false
	}
	if s := g.slot(p); s != nil && !g.resumed { // otherwise the stream says when it ends
		p.view().EndAt(s, g.revision, p.now().Add(ttl))
	}
	a.Grant.TTL, a.Grant.At = ttl, p.now()
	return true
}

// takeBack purges the lease of an answer that its caller does not get, once a live view
// shows it.
func (p *leases) takeBack(a *Answer) {
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 || g.renewal {
		return
	}
	if g.untold != nil {
		if *g.untold--; *g.untold > 0 {
			return
		}
	}
	p.whenLive(func() {
		s := p.view().Pool(g.key.Pool).Slot(g.key.N)
		if s != nil && s.Value.Lease == g.lease && p.giveBack(s, g.revision, g.resumed) {
			p.discard(g.key, g.revision, nil)
		}
	})
}

// giveBack is for a slot of whose lease a caller was not told. revision is that of the write on
// which the answer depended: the claim, or one for a repeat before which no caller was told of
// another. giveBack reports whether the slot is to be purged at that revision.
func (p *leases) giveBack(s *rules.Slot, revision uint64, repeat bool) (purge bool) {
	unchanged := s.Revision == revision
	switch {
	case !repeat:
		if !s.Value.Request.IsZero() {
			p.noteNotTold(s.Value.Lease)
		}
		if !unchanged { // a repeat has written it again
			p.purgeUntold(s)
		}
	case unchanged:
		p.unanswer(s)
	}
	return unchanged && !repeat
}

// purgeUntold purges a slot of this peer's claim if no caller knows of its lease.
func (p *leases) purgeUntold(s *rules.Slot) {
	if _, untold := p.untold[s.Value.Lease]; untold && s.Value.Unanswered() {
		p.discard(rules.SlotKey(s.Pool.ID, s.Position), s.Revision, nil)
	}
}

// unanswer is for a slot that was written for repeats alone, of which no caller was told. The
// peer that has claimed it knows whether the claim's caller was: so another peer writes it
// again, for that one.
func (p *leases) unanswer(s *rules.Slot) {
	key, left := rules.SlotKey(s.Pool.ID, s.Position), max(p.timeLeft(s), time.Second)
	if _, untold := p.untold[s.Value.Lease]; untold {
		p.discard(key, s.Revision, nil)
		return
	}
	value := s.Renewed(left)
	value.Untold = true
	p.put(p.value(key, value, s.Revision, left), nil)
}

// slot returns the slot that was granted, or nil if the view does not show it. The view
// may have been built anew since: the stream may have lost the write that the grant
// depends on, and hold another lease at its revision.
func (g *grantBasis) slot(p *leases) *rules.Slot {
	s := p.view().Pool(g.key.Pool).Slot(g.key.N)
	if s == nil || s.Revision != g.revision || s.Value.Lease != g.lease {
		return nil
	}
	return s
}

// grantOf returns the grant of a lease whose write was sent at sent, and sets the lease's
// end accordingly. ok is false if less than a second of the ttl is left.
func (p *leases) grantOf(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	if g, ok = p.grantAgain(s, ttl, sent); ok {
		g.basis.resumed, g.basis.renewal, g.Resumed = false, false, false
		p.view().EndAt(s, s.Revision, g.At.Add(g.TTL))
	}
	return g, ok
}

// grantAgain returns the grant of a lease of which another caller may know. An earlier answer
// may promise it for a little longer, so the stream says when it ends.
func (p *leases) grantAgain(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	left := remainingTTL(ttl, p.now().Sub(sent))
	if left < time.Second {
		return Grant{}, false
	}
	basis := grantBasis{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, lease: s.Value.Lease, ttl: ttl, sent: sent, resumed: true, renewal: true}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: p.now(), Lease: s.Value.Lease, Revision: s.Revision, Nonce: s.Value.Nonce, Resumed: true, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }

// noteNotTold records that the caller of this peer's claim was not told of its lease.
func (p *leases) noteNotTold(lease entry.Hash) { put(&p.untold, lease, struct{}{}) }

// noteEnd forgets that, when the lease has ended.
func (p *leases) noteEnd(lease entry.Hash) { delete(p.untold, lease) }

// noteUntold purges a slot that was written for repeats of which no caller was told, if this peer has
// claimed it and its caller was not told either.
func (p *leases) noteUntold(e *entry.Entry) {
	if key := e.Key; e.Slot.Untold {
		p.whenLive(func() {
			if s := p.view().Pool(key.Pool).Slot(key.N); s != nil {
				p.purgeUntold(s)
			}
		})
	}
}
