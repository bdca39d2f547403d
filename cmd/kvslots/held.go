package main

import (
	"time"

	"github.com/google/uuid"
)

// held is a lease in our hands. Its times are those of bootTime.
type held struct {
	pool  uuid.UUID
	lease leaseAnswer
	began time.Duration // or later

	latest time.Duration // the lease has ended by then
}

// newHeld counts from when the request was sent: when the answer was is not
// known. What the gateway says that it waited before the lease began is no part
// of the lease; over HTTP it does not say.
func newHeld(pool uuid.UUID, lease leaseAnswer, sent, answered time.Duration) held {
	return held{pool, lease, sent + lease.Waited, answered + lease.ttl()}
}

// end is when the lease may be over.
func (h held) end() time.Duration { return h.began + h.lease.ttl() }

// kill is when nothing may run any more.
func (h held) kill() time.Duration { return h.end() - margin(h.lease.ttl()) }

// term is when a command must be told to end that may take killAfter for it.
func (h held) term(killAfter time.Duration) time.Duration { return h.kill() - killAfter }

// renewal is when to renew, if that can be done.
func (h held) renewal() time.Duration { return h.began + h.lease.ttl()/3 }

// useful tells whether enough is left of the lease to begin something: half of
// what there was, or more.
func (h held) useful(now, killAfter time.Duration) bool {
	whole := h.lease.ttl() - margin(h.lease.ttl()) - killAfter
	return whole > 0 && h.term(killAfter)-now >= whole/2
}

// margin is how long before a lease's end all is over: for signals that are
// delivered late, and clocks that do not run alike.
func margin(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 250*time.Millisecond), 2*time.Second)
}

// defaultKillAfter leaves most of a short lease to the command.
func defaultKillAfter(ttl time.Duration) time.Duration {
	return min(ttl/3, 10*time.Second)
}
