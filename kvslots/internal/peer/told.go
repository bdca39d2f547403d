package peer

import (
	"errors"
	"slices"
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
	renewal  bool          // the caller knows of the lease already
	keyed    bool          // the borrow had a request key
	resumed  bool          // the lease was granted before, and may be promised for longer
}

// Told records that the answer to a call reaches its caller only now, later than it was
// decided. It restarts the lease's ttl, as far as the other peers let the lease
// live.
func (k *kernel) Told(a *Answer, now Instant) {
	k.now = now
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 {
		return
	}
	ttl := remainingTTL(g.ttl, now.Sub(g.sent))
	if ttl < time.Second {
		k.Untold(a, ErrUnavailable, now)
		return
	}
	if s := g.slot(k); s != nil && !g.resumed { // otherwise the stream says when it ends
		k.view.EndAt(s, g.revision, now.Add(ttl))
	}
	a.Grant.TTL, a.Grant.At = ttl, now
}

// Untold records that a caller will get the error why in place of the answer. It purges
// a granted lease, since no caller knows of it.
func (k *kernel) Untold(a *Answer, why error, now Instant) {
	k.now = now
	k.takeBack(a, why)
	*a = Answer{Call: a.Call, Err: why}
}

// takeBack purges the lease of an answer that its caller does not get, once a live view
// shows it. If the borrow had a request key, and its caller has gone with ErrPlaceKept, the
// caller may repeat it for Config.ResumeGrace.
func (k *kernel) takeBack(a *Answer, why error) {
	if a.Grant.basis.keyed && errors.Is(why, ErrPlaceKept) {
		k.takeBackIn(k.cfg.ResumeGrace, a)
	} else {
		k.takeBackIn(0, a)
	}
}

func (k *kernel) takeBackIn(grace time.Duration, a *Answer) {
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 || g.renewal {
		return
	}
	purge := func() {
		if s := g.slot(k); s != nil {
			k.writes.discard(g.key, s.Revision, nil)
		}
	}
	switch {
	case grace > 0:
		k.keep(grace, func() { k.reads.whenLive(purge) })
	case k.feed.mode == live:
		purge()
	default:
		k.reads.whenLive(purge)
	}
}

// keep calls end when d has passed, or when the peer closes.
func (k *kernel) keep(d time.Duration, end func()) {
	if n := len(k.kept); n >= 64 && n&(n-1) == 0 { // sometimes: drop those that have ended
		k.kept = slices.DeleteFunc(k.kept, func(t *timer) bool { return t.index == 0 })
	}
	t := &timer{fire: end}
	k.kept = append(k.kept, t)
	k.timers.start(t, k.now.Add(d))
}

// keepNothing ends what keep keeps.
func (k *kernel) keepNothing() {
	for _, t := range k.kept {
		if t.index != 0 {
			k.timers.stop(t)
			t.fire()
		}
	}
	k.kept = nil
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
	basis := grantBasis{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, lease: s.Value.Lease, ttl: ttl, sent: sent, keyed: !s.Value.Request.IsZero(), resumed: true, renewal: true}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: k.now, Lease: s.Value.Lease, Revision: s.Revision, Nonce: s.Value.Nonce, Resumed: true, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
