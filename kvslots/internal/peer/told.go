package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type leases struct {
	*keeper
	endings endings
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

// takeBack is called when an answer does not reach its caller.
func (p *leases) takeBack(a *Answer) {
	if g := &a.Grant; a.Err == nil && g.basis.revision != 0 && g.Sharers.lose() {
		p.giveBack(g.basis.key, g.Lease, func() {})
	}
}

func (p *leases) abandon(r Abandon) {
	if r.Sharers.lose() {
		p.whenLive(func() {
			if s := p.view().Pool(r.Pool).Lease(r.Lease, 0); s != nil {
				p.giveBack(rules.SlotKey(r.Pool, s.Position), r.Lease, func() {})
			}
		})
	}
}

// giveBack is for a write of a slot after which no caller was told of the lease. When the view is
// live, and the slot has the lease, it is written again for one answer less, or purged if there was no
// other.
func (p *leases) giveBack(key entry.Key, lease entry.Hash, done func()) {
	p.whenLive(func() {
		again := func(w *write) {
			if w.learnt() || w.written() {
				p.giveBack(key, lease, done)
			} else { // the view does not show yet what is in the way
				p.after(nil, failurePause, func() { p.giveBack(key, lease, done) })
			}
		}
		switch s := p.view().Pool(key.Pool).Slot(key.N); {
		case s == nil || !s.Taken || s.Value.Lease != lease:
			done()
		case s.Value.Answers == 0:
			p.discard(key, s.Revision, again)
		default:
			p.writeBack(s, again)
			done()
		}
	})
}

// writeBack writes a slot for one answer less. If the view cannot show whether it was written, since the
// slot was written again, it is not repeated: a caller may know of the lease.
func (p *leases) writeBack(s *rules.Slot, again func(*write)) {
	left := max(p.timeLeft(s), time.Second)
	value, before := s.Renewed(left), s.Revision
	value.Answers = s.Value.Answers - 1
	p.put(p.value(rules.SlotKey(s.Pool.ID, s.Position), value, before, left), func(w *write) {
		switch {
		case w.refused():
			again(w)
		case w.unknown():
			p.whenCurrent(nil, func() {
				if s := p.view().Pool(w.key().Pool).Slot(w.key().N); s != nil && s.Revision == before {
					again(w)
				}
			})
		}
	})
}

// giveBackWritten is giveBack after a write, if it was certainly written.
func (p *leases) giveBackWritten(w *write, lease entry.Hash) {
	if w.written() {
		p.giveBack(w.key(), lease, func() {})
		return
	}
	p.whenCurrent(nil, func() {
		if s := p.view().Pool(w.key().Pool).Slot(w.key().N); s != nil && s.Taken && s.Author == w.author() {
			p.giveBack(w.key(), lease, func() {})
		}
	})
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
		g.basis.resumed, g.Resumed = false, false
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
	basis := grantBasis{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, lease: s.Value.Lease, ttl: ttl, sent: sent, resumed: true}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: p.now(), Lease: s.Value.Lease, Nonce: s.Value.Nonce, Resumed: true, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
