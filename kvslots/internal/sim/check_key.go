package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// requestKey is what the checker knows of the calls with one request key.
type requestKey struct {
	calls  int // so far
	last   *call
	shared bool // two calls were under way at the same time
	open   int
	asked  []time.Duration // the different ttls
}

func (k *checker) beginKey(c *call) {
	if c.target.request.IsZero() {
		return
	}
	key := k.keys[c.target.request]
	if key == nil {
		key = &requestKey{}
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
}

// endedWith reports whether no other call with the key was under way at the same time as any
// call, or has begun since c. A nil key has one call.
func (key *requestKey) endedWith(c *call) bool { return key == nil || !key.shared && key.last == c }

// leaseOfGrant returns the lease of a lock or semaphore that a call was granted.
func (k *checker) leaseOfGrant(c *call, asked entry.Hash) entry.Hash {
	switch {
	case c.facts.key == nil || c.answer.Err != nil || c.answer.Queued:
		return asked
	case c.target.session.IsZero():
		return c.answer.Grant.Lease
	}
	return leaseOf(c.target.session, c.answer.Grant.Nonce)
}

// checkKey fails the run if two leases of one request key are certainly live at a time.
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
