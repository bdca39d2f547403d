package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// grantBasis is the write that a Grant depends on.
type grantBasis struct {
	key      entry.Key
	revision uint64
	ttl      time.Duration // as requested
	sent     Instant       // the write was sent, so it was written later
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
	if s := p.view.Pool(g.key.Pool).Slot(g.key.N); s != nil { // otherwise the stream says when it ends
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

// takeBack purges the lease of an answer that its caller does not get.
func (p *Peer) takeBack(a *Answer) {
	if g := a.Grant.basis; a.Err == nil && g.revision != 0 && !g.renewal {
		p.writes.release(g.key, g.revision, nil)
	}
}
