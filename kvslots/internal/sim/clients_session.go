package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// sessionClient is a client that creates sessions and takes locks and semaphores with
// them.
type sessionClient struct {
	baseClient
	session              entry.Hash
	idleTimeout          time.Duration
	sessionCount         int // sessions created so far; the pings of an earlier one stop
	sessionGone          bool
	pingsNotWhileWaiting bool
	waitingCalls         int           // calls that may be waiting in a line
	target               peer.Resource // the lock or semaphore of the current request
	lease                entry.Hash
	fence                uint64
}

func (h *sessionClient) step() {
	if h.s.ending {
		h.finish()
		return
	}
	h.session, h.sessionGone = h.s.newHash(), false
	h.idleTimeout = (time.Second + h.upTo(h.s.plan.Clients.Idle-time.Second)).Truncate(time.Millisecond)
	r := peer.CreateSession{Session: h.session, Idle: 2 * h.idleTimeout}
	if h.chance(0.7) {
		r.Origin = origin(h.rng.Uint64N(3))
	}
	h.ask(r, func(c *call) {
		if c.answer.Err != nil {
			h.think(h.step) // a session id is used only once
			return
		}
		h.sessionCount++
		h.pingsNotWhileWaiting = h.chance(h.s.plan.Clients.Quiet)
		h.ping(h.sessionCount)
		h.act()
	})
}

func origin(n uint64) entry.Hash { return numberedHash(0x6f726967, n) }

// ping schedules the next ping of the session, each at a random peer.
func (h *sessionClient) ping(number int) {
	h.s.after(h.idleTimeout/4+h.upTo(h.idleTimeout/2), func() {
		if h.sessionCount != number || h.sessionGone {
			return
		}
		if h.pingsNotWhileWaiting && h.waitingCalls > 0 {
			h.ping(number)
			return
		}
		h.ask(peer.Ping{Session: h.session}, func(c *call) {
			if isAny(c.answer.Err, peer.ErrSessionGone) && h.sessionCount == number {
				h.sessionGone = true
				return
			}
			h.ping(number)
		})
	})
}

func (h *sessionClient) act() {
	switch n := h.rng.IntN(100); {
	case h.sessionGone:
		h.abandonSession()
	case h.s.ending || n < 4:
		h.endSession()
	case n < 6:
		h.abandonSession()
	default:
		h.target = h.drawResource()
		if h.chance(0.4) {
			h.enqueue()
		} else {
			h.acquire()
		}
	}
}

func (h *sessionClient) notice(c *call) {
	h.sessionGone = h.sessionGone || isAny(c.answer.Err, peer.ErrSessionGone)
}

func (h *sessionClient) endSession() {
	h.sessionCount++
	h.askUntilKnown(peer.EndSession{Session: h.session}, func(*call) {
		if h.chance(0.2) {
			h.ask(peer.Ping{Session: h.session}, func(*call) { h.think(h.step) })
			return
		}
		h.think(h.step)
	})
}

// abandonSession stops using the session, which then ends by its idle timeout.
func (h *sessionClient) abandonSession() {
	h.sessionCount++
	h.think(h.step)
}

func (h *sessionClient) drawResource() peer.Resource {
	c := h.s.plan.Clients
	r := peer.Resource{Lock: true, Limit: 1}
	switch {
	case h.chance(c.Once):
		r.Name = fmt.Sprintf("once %d", h.s.hashCount)
		h.s.hashCount++
	case h.chance(c.Fresh):
		const moment = 3 * time.Second
		r.Name = fmt.Sprintf("moment %d", h.s.now.Sub(start)/moment)
	default:
		n := h.rng.IntN(c.Names)
		if r.Name = fmt.Sprintf("name %d", n); n%2 != 0 {
			r.Lock, r.Limit = false, 1+n%3
		}
		if h.chance(c.Mismatch) {
			r.Lock = !r.Lock && h.chance(0.5)
			if r.Limit = 1; !r.Lock {
				r.Limit = 1 + h.rng.IntN(3)
			}
		}
	}
	r.Pool = nameID("", r.Name)
	return r
}

func (h *sessionClient) acquire() {
	nonce := h.s.newHash()
	h.lease = leaseOf(h.session, nonce)
	r := peer.Acquire{Resource: h.target, Session: h.session, Lease: h.lease, Nonce: nonce, TTL: h.ttl(), Wait: h.wait()}
	h.waitingCalls++
	answered := func(c *call) {
		h.waitingCalls--
		h.answered(c)
	}
	if !h.chance(h.s.plan.Clients.Keyed) {
		h.askImpatiently(r, errHungUp, answered)
		return
	}
	r.Request = h.s.newHash()
	h.askWithKey(func(int) peer.Request {
		again := r
		again.Nonce = h.s.newHash()
		again.Lease = leaseOf(h.session, again.Nonce)
		if h.chance(0.05) {
			again.TTL += time.Second
		}
		return again
	}, func(c *call) {
		if c.answer.Err == nil {
			h.lease = leaseOf(h.session, c.answer.Grant.Nonce)
		}
		answered(c)
	})
}

func (h *sessionClient) answered(c *call) {
	h.notice(c)
	if c.answer.Err != nil {
		h.think(h.act)
		return
	}
	h.fence = c.answer.Grant.Fence
	h.use()
}

func (h *sessionClient) enqueue() {
	nonce := h.s.newHash()
	h.lease = leaseOf(h.session, nonce)
	r := peer.Enqueue{Resource: h.target, Session: h.session, Lease: h.lease, Nonce: nonce, TTL: h.ttl()}
	answered := func(c *call) {
		if c.facts.key != nil && c.answer.Err == nil && !c.answer.Queued {
			h.lease = leaseOf(h.session, c.answer.Grant.Nonce)
		}
		switch {
		case c.answer.Err == nil && !c.answer.Queued && h.chance(0.7):
			h.answered(c)
		case c.answer.Err == nil || c.unknown() || isAny(c.answer.Err, peer.ErrAlreadyEnqueued):
			h.think(h.await)
		default:
			h.answered(c)
		}
	}
	if !h.chance(h.s.plan.Clients.Keyed) {
		h.askImpatiently(r, errHungUp, answered)
		return
	}
	r.Request = h.s.newHash()
	h.askWithKey(func(int) peer.Request {
		again := r
		again.Nonce = h.s.newHash()
		again.Lease = leaseOf(h.session, again.Nonce)
		if h.chance(0.05) {
			again.TTL += time.Second
		}
		return again
	}, answered)
}

func (h *sessionClient) await() {
	switch n := h.rng.IntN(100); {
	case h.sessionGone:
		h.abandonSession()
		return
	case n < 10: // forget the place in the line
		h.think(h.act)
		return
	case n < 20:
		h.enqueue() // enqueue twice
		return
	}
	why := errHungUp
	if h.chance(0.5) {
		why = peer.ErrPlaceKept
	}
	r := peer.Await{Pool: h.target.Pool, Session: h.session, Lock: h.target.Lock, Wait: h.upTo(h.s.plan.Clients.Wait)}
	h.waitingCalls++
	h.askImpatiently(r, why, func(c *call) {
		h.waitingCalls--
		if c.answer.Err == nil {
			h.lease = leaseOf(h.session, c.answer.Grant.Nonce)
		}
		if c.unknown() && h.chance(0.8) {
			h.think(h.await)
			return
		}
		h.answered(c)
	})
}

func (h *sessionClient) use() {
	h.think(func() {
		switch n := h.rng.IntN(100); {
		case h.sessionGone:
			h.abandonSession()
		case n < 60 || h.s.ending || n >= 80 && h.s.plan.Outages > 0: // see borrower.use
			h.release()
		case n < 80:
			h.ask(peer.Renew{Held: h.held(), TTL: h.ttl()}, func(c *call) {
				h.notice(c)
				if c.answer.Err == nil || c.unknown() {
					h.use()
					return
				}
				h.think(h.act)
			})
		default:
			h.think(h.act) // let the lease expire
		}
	})
}

func (h *sessionClient) held() peer.Held {
	return peer.Held{Pool: h.target.Pool, Lease: h.lease, Session: h.session, Named: true, Lock: h.target.Lock, Fence: h.fence}
}

func (h *sessionClient) release() {
	r := peer.Return{Held: h.held()}
	h.askUntilKnown(r, func(c *call) {
		h.notice(c)
		if h.chance(0.15) && !h.sessionGone {
			h.askUntilKnown(r, func(*call) { h.think(h.act) })
			return
		}
		h.think(h.act)
	})
}
