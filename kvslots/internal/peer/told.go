package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// grantBasis is the write that a Grant depends on.
type grantBasis struct {
	key      entry.Key
	revision uint64
	lease    entry.Hash
	ttl      time.Duration // as requested
	sent     Instant       // when the write was sent; it was written later
	renewal  bool          // a caller of a repeat or a renewal knows of the lease already, or may
	resumed  bool          // the lease was granted before, and may be promised for longer
	untold   *int          // how many callers are still to be told, if several have the answer; nil: one
}

// Told records that the answer to a call reaches its caller only now, later than it was
// decided. It restarts the lease's ttl, as far as the other peers let the lease
// live.
func (k *kernel) Told(a *Answer, now Instant) {
	k.now = now
	if !k.promiseAnew(a) {
		k.Untold(a, ErrUnavailable, now)
	}
}

// promiseAnew restarts the ttl of a lease that is told now. It returns false if less than a second is left.
func (k *kernel) promiseAnew(a *Answer) bool {
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 {
		return true
	}
	ttl := remainingTTL(g.ttl, k.now.Sub(g.sent))
	if ttl < time.Second {
		return false
	}
	if s := g.slot(k); s != nil && !g.resumed { // otherwise the stream says when it ends
		k.view.EndAt(s, g.revision, k.now.Add(ttl))
	}
	a.Grant.TTL, a.Grant.At = ttl, k.now
	return true
}

// Untold records that a caller will get the error why in place of the answer. It purges
// a granted lease if no caller knows of it.
func (k *kernel) Untold(a *Answer, why error, now Instant) {
	k.now = now
	k.takeBack(a)
	*a = Answer{Call: a.Call, Err: why}
	k.advance()
}

// takeBack purges the lease of an answer that its caller does not get, once a live view
// shows it.
func (k *kernel) takeBack(a *Answer) {
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 || g.renewal {
		return
	}
	if g.untold != nil {
		if *g.untold--; *g.untold > 0 {
			return
		}
	}
	k.reads.whenLive(func() {
		s := k.view.Pool(g.key.Pool).Slot(g.key.N)
		if s != nil && s.Value.Lease == g.lease && k.giveBack(s, g.revision, g.resumed) {
			k.writes.discard(g.key, g.revision, nil)
		}
	})
}

// giveBack is for a slot of whose lease a caller was not told. revision is that of the write on
// which the answer depended: the claim, or one for a repeat before which no caller was told of
// another. giveBack reports whether the slot is to be purged at that revision.
func (k *kernel) giveBack(s *rules.Slot, revision uint64, repeat bool) (purge bool) {
	unchanged := s.Revision == revision
	switch {
	case !repeat:
		if !s.Value.Request.IsZero() {
			put(&k.untold, s.Value.Lease, struct{}{})
		}
		if !unchanged { // a repeat has written it again
			k.purgeUntold(s)
		}
	case unchanged:
		k.unanswer(s)
	}
	return unchanged && !repeat
}

// purgeUntold purges a slot of this peer's claim if no caller knows of its lease.
func (k *kernel) purgeUntold(s *rules.Slot) {
	if _, untold := k.untold[s.Value.Lease]; untold && s.Value.Unanswered() {
		k.writes.discard(rules.SlotKey(s.Pool.ID, s.Position), s.Revision, nil)
	}
}

// unanswer is for a slot that was written for repeats alone, of which no caller was told. The
// peer that has claimed it knows whether the claim's caller was: so another peer writes it
// again, for that one.
func (k *kernel) unanswer(s *rules.Slot) {
	key, left := rules.SlotKey(s.Pool.ID, s.Position), max(k.feed.timeLeft(s), time.Second)
	if _, untold := k.untold[s.Value.Lease]; untold {
		k.writes.discard(key, s.Revision, nil)
		return
	}
	value := s.Renewed(left)
	value.Untold = true
	k.writes.put(k.value(key, value, s.Revision, left), nil)
}

// slot returns the slot that was granted, or nil if the view does not show it. The view
// may have been built anew since: the stream may have lost the write that the grant
// depends on, and hold another lease at its revision.
func (g *grantBasis) slot(k *kernel) *rules.Slot {
	s := k.view.Pool(g.key.Pool).Slot(g.key.N)
	if s == nil || s.Revision != g.revision || s.Value.Lease != g.lease {
		return nil
	}
	return s
}

// grantOf returns the grant of a lease whose write was sent at sent, and sets the lease's
// end accordingly. ok is false if less than a second of the ttl is left.
func (k *kernel) grantOf(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	if g, ok = k.grantAgain(s, ttl, sent); ok {
		g.basis.resumed, g.basis.renewal, g.Resumed = false, false, false
		k.view.EndAt(s, s.Revision, g.At.Add(g.TTL))
	}
	return g, ok
}

// grantAgain returns the grant of a lease of which another caller may know. An earlier answer
// may promise it for a little longer, so the stream says when it ends.
func (k *kernel) grantAgain(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	left := remainingTTL(ttl, k.now.Sub(sent))
	if left < time.Second {
		return Grant{}, false
	}
	basis := grantBasis{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, lease: s.Value.Lease, ttl: ttl, sent: sent, resumed: true, renewal: true}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: k.now, Lease: s.Value.Lease, Revision: s.Revision, Nonce: s.Value.Nonce, Resumed: true, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
