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

// takeBack is called when an answer does not reach its caller. An enqueued ticket stays: a repeat may have told its
// session of it, and the next Await finds it.
func (p *leases) takeBack(a *Answer) {
	if !a.created.IsZero() {
		p.endUntold(a.created)
	}
	if g := &a.Grant; a.Err == nil && g.basis.revision != 0 && g.Sharers.lose() {
		p.takeOff(g.basis.key, g.Sharers.answer, 0, func() {})
	}
}

// endUntold ends a session that no client knows of.
func (p *leases) endUntold(session entry.Hash) {
	p.whenLive(func() {
		if s := p.view().Session(session); s.Alive() {
			p.discard(rules.SessionKey(session), s.Revision, func(*write) { p.endUntold(session) })
		}
	})
}

func (p *leases) abandon(r Abandon) {
	if r.Sharers.lose() {
		p.whenLive(func() {
			if s := p.view().Pool(r.Pool).Lease(r.Lease, 0); s != nil {
				p.takeOff(rules.SlotKey(r.Pool, s.Position), r.Sharers.answer, 0, func() {})
			}
		})
	}
}

// takeOff is for an answer that tells no caller of a lease. The slot is written again without it, or purged
// if no other answer may have told one. If the write on which the answer depends may still be written, over
// is the revision that it expects, and the slot is written again so that it will not be.
func (p *leases) takeOff(key entry.Key, answer, over uint64, done func()) {
	p.whenLive(func() {
		s := p.view().Pool(key.Pool).Slot(key.N)
		if s == nil || !s.Taken || !s.Tells(answer) && s.Revision > over {
			done()
			return
		}
		left := max(p.timeLeft(s), time.Second)
		if s.Value.Unseen { // Await restarts the whole time
			left = s.Value.TTL.Duration()
		}
		value := s.Rewritten(left)
		value.Answers = without(value.Answers, answer)
		settled := func(w *write) {
			again := func() { p.takeOff(key, answer, min(over, w.expected()), done) }
			if w.learnt() || w.written() {
				again()
			} else { // the view does not show yet what is in the way
				p.after(nil, failurePause, again)
			}
		}
		switch t := leftTicket(s); {
		case !s.Tells(answer) || value.Known || len(value.Answers) > 0:
			p.put(p.value(key, value, s.Revision, left), settled)
		case t != nil && t.Value.Enqueued(): // it would stand again
			p.discard(t.Key, t.Revision, settled)
		default:
			p.discard(key, s.Revision, settled)
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
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: p.now(), Lease: s.Value.Lease, Nonce: s.Value.Nonce, Resumed: true, Sharers: Sharers{answer: s.Author}, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
