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
	renewal  bool          // the caller knows of the lease already
}

// Told records that the answer to a call reaches its caller only now, later than it was
// decided. It restarts the lease's ttl, as far as the other peers let the lease
// live.
func (p *Peer) Told(a *Answer, now Instant) {
	p.now = now
	g := a.Grant.basis
	if a.Err != nil || g.revision == 0 {
		return
	}
	ttl := remainingTTL(g.ttl, now.Sub(g.sent))
	if ttl < time.Second {
		p.Untold(a, ErrUnavailable, now)
		return
	}
	if s := g.slot(p); s != nil { // otherwise the stream says when it ends
		p.view.EndAt(s, g.revision, now.Add(ttl))
	}
	a.Grant.TTL, a.Grant.At = ttl, now
}

// Untold records that a caller will get the error why in place of the answer. It purges
// a granted lease, since no caller knows of it.
func (p *Peer) Untold(a *Answer, why error, now Instant) {
	p.now = now
	p.takeBack(a)
	*a = Answer{Call: a.Call, Err: why}
}

// takeBack purges the lease of an answer that its caller does not get, once a live view
// shows it.
func (p *Peer) takeBack(a *Answer) {
	if g := a.Grant.basis; a.Err == nil && g.revision != 0 && !g.renewal {
		isOwn := func(entry.Key) bool { return g.slot(p) != nil }
		if p.watch.mode == live {
			p.writes.purgeOwn(g.key, isOwn)
		} else {
			p.writes.purgeOwnAt(0, g.key, isOwn)
		}
	}
}

// slot returns the slot that was granted, or nil if the view does not show it. The view
// may have been built anew since: the stream may have lost the write that the grant
// depends on, and hold another lease at its revision.
func (g *grantBasis) slot(p *Peer) *rules.Slot {
	s := p.view.Pool(g.key.Pool).Slot(g.key.N)
	if s == nil || s.Revision != g.revision || s.Value.Lease != g.lease {
		return nil
	}
	return s
}
