package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type requestKey struct {
	calls  int // so far
	last   *call
	shared bool // two calls were under way at the same time
	open   int
	began  Instant         // when the first call did
	told   []uint64        // the fences of the leases that callers were told of
	asked  []time.Duration // the different ttls
	ends   []Instant       // when the time of its lease is over, as each write of the slot has it
}

func (k *checker) beginKey(c *call) {
	if c.target.request.IsZero() {
		return
	}
	key := k.keys[c.target.request]
	if key == nil {
		key = &requestKey{began: k.s.now}
		k.keys[c.target.request] = key
	}
	c.facts.key = key
	key.calls++
	key.open++
	key.last, key.shared = c, key.shared || key.open > 1
	if !slices.Contains(key.asked, c.target.ttl) {
		key.asked = append(key.asked, c.target.ttl)
	}
}

func (k *checker) answeredKey(c *call) {
	key := c.facts.key
	if key == nil {
		return
	}
	key.open--
	switch {
	case isAny(c.answer.Err, peer.ErrKeyReused) && len(key.asked) < 2:
		k.wrong(c, "all calls with the key have asked for the same")
	case c.answer.Err == nil && key.calls > 1:
		k.s.met.add("repeat answered")
	}
	if c.answer.Err == nil {
		key.told = append(key.told, c.answer.Grant.Fence)
	}
	if key.open == 0 && !c.target.named {
		k.checkLeft(c, key.calls)
	}
}

// checkLeft fails the run if no call has come with a request key since the last one was answered,
// and the key has a slot that no caller was told of, or a place in line after the grace.
func (k *checker) checkLeft(c *call, calls int) {
	s, key := k.s, c.facts.key
	is := func() bool {
		return key.calls == calls && s.faultState.settledAt(key.began) && (k.losses.of(c) == 0 || k.losses.of(c).Add(rebuildTime) < key.began)
	}
	within := abandonedTime + 8*s.maxLatency()
	s.after(within, func() {
		for _, e := range s.server.truth.pool(c.target.pool).slots {
			if is() && e.Slot.Request == c.target.request && !slices.Contains(key.told, e.Fence()) {
				s.fail("lent without a caller", "%v ago the last call with the key of this slot was answered, and none was told of it: %s", within, describeEntry(e))
			}
		}
	})
	s.after(within+s.plan.Grace, func() {
		for _, t := range s.server.truth.pool(c.target.pool).tickets {
			if is() && t.Ticket.Request == c.target.request {
				s.fail("place without a caller", "%v ago the last call with the key of this ticket was answered: %s", within+s.plan.Grace, describeEntry(t.Entry))
			}
		}
	})
}

// checkPlace fails the run if a peer writes a ticket for a request key that has a place in line, of
// which the peer must know: a repeat takes that place.
func (k *checker) checkPlace(p *poolTruth, e *entry.Entry) {
	if e.Marker || e.Ticket.Place != 0 || e.Ticket.Grace == 0 {
		return
	}
	known := k.s.now.Add(-abandonedTime - 8*k.s.maxLatency())
	for _, t := range p.tickets {
		if t.Ticket.Grace == 0 || t.Ticket.Request != e.Ticket.Request || !p.stands(t) {
			continue
		}
		k.s.met.add("place beside a place")
		if t.stoodAt <= known && k.s.faultState.settledAt(known) {
			k.s.fail("place of a key", "a ticket was written for a request key that has one in line: %s, beside %s", describeEntry(e), describeEntry(t.Entry))
		}
	}
}

// endedWith reports whether no other call with the key was under way at the same time as any
// call, or has begun since c. A nil key has one call.
func (key *requestKey) endedWith(c *call) bool { return key == nil || !key.shared && key.last == c }

func (k *checker) leaseOfGrant(c *call, asked entry.Hash) entry.Hash {
	switch {
	case c.facts.key == nil || c.answer.Err != nil || c.answer.Queued:
		return asked
	case c.target.session.IsZero():
		return c.answer.Grant.Lease
	}
	return leaseOf(c.target.session, c.answer.Grant.Nonce)
}

func (k *checker) checkKey(c *call, l *lease) {
	if l.request.IsZero() {
		return
	}
	for _, o := range l.pool.leases {
		at := max(l.claimedAt, o.claimedAt)
		if o.request == l.request && l.certainlyLive(at) && o.certainlyLive(at) {
			k.s.fail("two slots of a key", "call %d was granted position %d under fence %d while fence %d, of the same request key, has %v left",
				c.id, l.position, l.fence, o.fence, o.promisedUntil.Sub(at))
		}
	}
}

// resumedVoid checks the grant of a claim that was void, and that its peer has not withdrawn
// because it has died. It is a lease from the instant when it was written again.
func (k *checker) resumedVoid(c *call, l *lease) {
	k.s.met.add("void claim resumed")
	l.claimedAt = k.s.server.truth.renewals[claimKey{rules.SlotKey(l.pool.id, l.position), l.fence}]
	for _, o := range l.pool.leases {
		k.checkOverlap(c, l, o)
	}
}

// keyedLease derives the lease of a borrow with a request key from the nonce in the slot, as
// package kvslots does. The nonces of a borrow's claims differ in their last bytes.
func keyedLease(request, nonce entry.Hash) (h entry.Hash) {
	for i := range h {
		h[i] = request[i] ^ nonce[i] ^ 0x5a
	}
	return h
}
