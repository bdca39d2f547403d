package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// A pool is in use while a slot is live, a ticket stands or anything is out of service, and idle otherwise. Peers
// close a pool that has been idle for a while: see package peer.

// IdlePools is a queue of idle pools, by when they became idle.
type IdlePools struct{ queue deadlineQueue }

// InUseOrWaited reports whether a slot is live, a ticket stands, or anything is out of service,
// which the pool has to remember.
func (p *Pool) InUseOrWaited() bool { return p.Busy() || p.inForce().Paused() }

// Busy reports whether the pool has to keep its terms: a slot is live, a ticket stands, or a single
// position is out of service.
func (p *Pool) Busy() bool {
	out := p.inForce().Out
	return p.live.len() > 0 || p.WaitingUpTo(1) > 0 || len(out) > 1 || len(out) == 1 && out[0].Position != entry.WholePool
}

// idleQueue returns the queue that a pool belongs to, or nil if it is not idle.
func (v *View) idleQueue(p *Pool) *IdlePools {
	named := p.Terms().Named()
	switch {
	case !p.Exists() || p.Closing() || !named && !v.TracksIdle || p.InUseOrWaited():
		return nil
	case named:
		return &v.IdleNames
	}
	return &v.Idle
}

// setIdleQueue moves the pool to a queue of idle pools, or out of its queue if in is nil.
func (p *Pool) setIdleQueue(in *IdlePools, now Instant) {
	if p.idleIn == in {
		return
	}
	if p.idleIn != nil {
		p.idleIn.queue.drop(&p.idle)
	}
	if p.idleIn = in; in != nil {
		p.idleSince = now
		in.queue.set(&p.idle, now)
	}
}

// noteUse restarts the idle time of a pool, since one of its entries was written.
func (p *Pool) noteUse(now Instant) {
	if p.idleSince = now; p.idleIn != nil {
		p.idleIn.queue.set(&p.idle, now)
	}
}

// Closings returns the pools that are being closed. The slice is valid until the next
// change of the view.
func (v *View) Closings() []*Pool { return v.sets[isClosing] }

// LastUse returns since when a pool that is not in use has been idle: when its last entry
// other than a closing was applied.
func (p *Pool) LastUse() Instant { return p.idleSince }

// Each iterates over the pools, and the instants since which they have been idle, in no
// particular order.
func (i *IdlePools) Each(yield func(*Pool, Instant) bool) {
	for _, d := range i.queue {
		if p := d.of.parent.(*Pool); !yield(p, p.idleSince) {
			return
		}
	}
}

func (i *IdlePools) Len() int { return len(i.queue) }

// First returns the pool that is to be closed first, or nil. at is the instant since which
// it has been idle, or the one given to Defer.
func (i *IdlePools) First() (p *Pool, at Instant) {
	if len(i.queue) == 0 {
		return nil, 0
	}
	return i.queue[0].of.parent.(*Pool), i.queue[0].at
}

// Defer moves a pool in the queue, as if it had been idle since at.
func (i *IdlePools) Defer(p *Pool, at Instant) {
	if p.idleIn == i {
		i.queue.set(&p.idle, at)
	}
}
