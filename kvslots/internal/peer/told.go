package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// granted is what a Grant rests on.
type granted struct {
	key      entry.Key
	revision uint64
	ttl      time.Duration // as asked for
	sent     Instant       // when the revision was written, at the earliest
	renewal  bool          // the caller knows of the lease already
}

// Told notes that the answer to a call reaches its caller only now, and not when it
// was taken from a Ready. The time of a lease starts anew, as far as the other
// peers let it live.
func (p *Peer) Told(a *Answer, now Instant) {
	p.now = now
	g := a.Grant.rests
	if a.Err != nil || g.revision == 0 {
		return
	}
	ttl := remainingTTL(g.ttl, now.Sub(g.sent))
	if ttl < time.Second {
		p.Untold(a, ErrUnavailable, now)
		return
	}
	if s := p.view.Pool(g.key.Pool).Slot(g.key.N); s != nil && s.Taken && s.Revision == g.revision {
		p.view.EndAt(s, g.revision, now.Add(ttl))
	} else { // it has ended, or the view is built anew: no other end is known
		ttl = a.Grant.TTL - now.Sub(a.Grant.At)
	}
	a.Grant.TTL, a.Grant.At = ttl, now
}

// Untold notes that a caller will not learn the answer to its call, but why. A lease
// that was granted is given back: no caller knows of it.
func (p *Peer) Untold(a *Answer, why error, now Instant) {
	p.now = now
	p.takeBack(a)
	*a = Answer{Call: a.Call, Err: why}
}

// takeBack purges the lease that an answer grants, and that its caller has not
// learnt of.
func (p *Peer) takeBack(a *Answer) {
	if g := a.Grant.rests; a.Err == nil && g.revision != 0 && !g.renewal {
		p.release(g.key, g.revision, nil)
	}
}
