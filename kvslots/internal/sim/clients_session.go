package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// holder is a client with a session, under which it holds locks and semaphores.
type holder struct {
	user
	session entry.Hash
	tau     time.Duration
	life    int // counts sessions
	gone    bool
	quiet   bool          // it does not ping while a call waits
	waits   int           // calls that may wait
	on      peer.Resource // what it is at
	lease   entry.Hash
	fence   uint64
}

func (h *holder) step() {
	if h.s.ending {
		h.finished()
		return
	}
	h.session, h.gone = h.s.hash(), false
	h.tau = (time.Second + h.upTo(h.s.plan.Clients.Idle-time.Second)).Truncate(time.Millisecond)
	r := peer.CreateSession{Session: h.session, Idle: 2 * h.tau}
	if h.chance(0.7) {
		r.Origin = numbered(0x6f726967, h.rng.Uint64N(3))
	}
	h.ask(r, func(c *call) {
		if c.answer.Err != nil {
			h.think(h.step) // an id is used once
			return
		}
		h.life++
		h.quiet = h.chance(h.s.plan.Clients.Quiet)
		h.ping(h.life)
		h.act()
	})
}

// ping keeps the session alive, at another peer each time.
func (h *holder) ping(life int) {
	h.s.after(h.tau/4+h.upTo(h.tau/2), func() {
		if h.life != life || h.gone {
			return
		}
		if h.quiet && h.waits > 0 {
			h.ping(life)
			return
		}
		h.ask(peer.Ping{Session: h.session}, func(c *call) {
			if isAny(c.answer.Err, peer.ErrSessionGone) && h.life == life {
				h.gone = true
				return
			}
			h.ping(life)
		})
	})
}

// act does the next thing with the session.
func (h *holder) act() {
	switch n := h.rng.IntN(100); {
	case h.gone:
		h.abandon()
	case h.s.ending || n < 4:
		h.end()
	case n < 6:
		h.abandon()
	default:
		h.on = h.resource()
		if h.chance(0.4) {
			h.enqueue()
		} else {
			h.acquire()
		}
	}
}

// end ends the session.
func (h *holder) end() {
	h.life++
	h.askUntil(peer.EndSession{Session: h.session}, func(*call) {
		if h.chance(0.2) {
			h.ask(peer.Ping{Session: h.session}, func(*call) { h.think(h.step) })
			return
		}
		h.think(h.step)
	})
}

// abandon lets the session end by itself.
func (h *holder) abandon() {
	h.life++
	h.think(h.step)
}

// resource draws what to ask for.
func (h *holder) resource() peer.Resource {
	c := h.s.plan.Clients
	if h.chance(c.Once) {
		name := fmt.Sprintf("once %d", h.s.hashes)
		h.s.hashes++
		return peer.Resource{Pool: nameID("", name), Name: name, Lock: true, Limit: 1}
	}
	if h.chance(c.Fresh) {
		const moment = 3 * time.Second
		name := fmt.Sprintf("moment %d", h.s.now.Sub(start)/moment)
		return peer.Resource{Pool: nameID("", name), Name: name, Lock: true, Limit: 1}
	}
	n := h.rng.IntN(c.Names)
	r := peer.Resource{Name: fmt.Sprintf("name %d", n), Lock: n%2 == 0, Limit: 1}
	if !r.Lock {
		r.Limit = 1 + n%3
	}
	if h.chance(c.Mismatch) {
		r.Lock = !r.Lock && h.chance(0.5)
		if r.Limit = 1; !r.Lock {
			r.Limit = 1 + h.rng.IntN(3)
		}
	}
	r.Pool = nameID("", r.Name)
	return r
}

func (h *holder) acquire() {
	nonce := h.s.hash()
	h.lease = leaseOf(h.session, nonce)
	r := peer.Acquire{Resource: h.on, Session: h.session, Lease: h.lease, Nonce: nonce, TTL: h.ttl(), Wait: h.wait()}
	h.waits++
	h.askImpatiently(r, errHungUp, func(c *call) {
		h.waits--
		h.taken(c)
	})
}

// taken is the answer to a request for a lock or a slot.
func (h *holder) taken(c *call) {
	switch {
	case isAny(c.answer.Err, peer.ErrSessionGone):
		h.gone = true
		h.think(h.act)
	case c.answer.Err != nil:
		h.think(h.act)
	default:
		h.fence = c.answer.Grant.Fence
		h.use()
	}
}

func (h *holder) enqueue() {
	nonce := h.s.hash()
	h.lease = leaseOf(h.session, nonce)
	r := peer.Enqueue{Resource: h.on, Session: h.session, Lease: h.lease, Nonce: nonce, TTL: h.ttl()}
	h.askImpatiently(r, errHungUp, func(c *call) {
		switch {
		case c.answer.Err == nil && !c.answer.Queued && h.chance(0.7):
			h.taken(c)
		case c.answer.Err == nil || c.unknown() || isAny(c.answer.Err, peer.ErrAlreadyEnqueued):
			h.think(h.await)
		default:
			h.taken(c)
		}
	})
}

func (h *holder) await() {
	switch n := h.rng.IntN(100); {
	case h.gone:
		h.abandon()
		return
	case n < 10: // it forgets that it has a place
		h.think(h.act)
		return
	case n < 20:
		h.enqueue() // it forgets that it has enqueued
		return
	}
	why := errHungUp
	if h.chance(0.5) {
		why = peer.ErrPlaceKept
	}
	r := peer.Await{Pool: h.on.Pool, Session: h.session, Lock: h.on.Lock, Wait: h.upTo(h.s.plan.Clients.Wait)}
	h.waits++
	h.askImpatiently(r, why, func(c *call) {
		h.waits--
		if c.answer.Err == nil {
			h.lease = leaseOf(h.session, c.answer.Grant.Nonce)
		}
		if c.unknown() && h.chance(0.8) {
			h.think(h.await)
			return
		}
		h.taken(c)
	})
}

// use is while a lock or a slot is held.
func (h *holder) use() {
	h.think(func() {
		switch n := h.rng.IntN(100); {
		case h.gone:
			h.abandon()
		case n < 60 || h.s.ending:
			h.giveBack()
		case n < 80:
			h.ask(peer.Renew{Held: h.held(), TTL: h.ttl()}, func(c *call) {
				if isAny(c.answer.Err, peer.ErrSessionGone) {
					h.gone = true
				}
				if c.answer.Err == nil || c.unknown() {
					h.use()
					return
				}
				h.think(h.act)
			})
		default:
			h.think(h.act) // it lets the lease expire
		}
	})
}

func (h *holder) held() peer.Held {
	return peer.Held{Pool: h.on.Pool, Lease: h.lease, Session: h.session, Named: true, Lock: h.on.Lock, Fence: h.fence}
}

func (h *holder) giveBack() {
	r := peer.Return{Held: h.held()}
	h.askUntil(r, func(c *call) {
		if isAny(c.answer.Err, peer.ErrSessionGone) {
			h.gone = true
		}
		if h.chance(0.15) && !h.gone {
			h.askUntil(r, func(*call) { h.think(h.act) })
			return
		}
		h.think(h.act)
	})
}
