package backup

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type Summary struct {
	Pools    int `json:"pools"`
	Leases   int `json:"leases"`
	Sessions int `json:"sessions"`
	Expired  int `json:"expired"` // leases that were not restored because their time was over
}

type plan struct {
	Summary
	untimed []entry.Message // configurations and sessions: they do not depend on the time of the write
	leases  []lease
}

type lease struct {
	key   entry.Key
	value entry.SlotValue
	left  time.Duration // its remaining time when the plan was made; more than -rules.Slack
}

// epoch is the instant at which a plan is made. It is so late that no lease began before
// instant 0, which means "none" in package rules.
const epoch = rules.Instant(2 * entry.MaxSpan)

// newPlan decides which entries of a backup to restore at the time now, by the stream
// leader's clock. Package rules decides which are live, as when a peer loads the bucket.
//
// The backup may contain two claims of one lease, since two peers may claim for one
// enqueued ticket. The claim with the lower fence is the lease.
func newPlan(b *Backup, now time.Time) *plan {
	view, entries := load(b, now)
	p := &plan{}
	first := map[entry.Hash]*rules.Slot{} // by lease
	sessions, pools := map[entry.Hash]bool{}, map[entry.Hash]bool{}
	for i := range entries {
		s := slotOf(view, &entries[i])
		if s == nil || !s.Live() {
			continue
		}
		if s.Ended(epoch) {
			p.Expired++
			continue
		}
		if other := first[s.Value.Lease]; other == nil || s.Fence < other.Fence {
			first[s.Value.Lease] = s
		}
		sessions[s.Value.Session], pools[s.Pool.ID] = true, true
	}
	for i := range entries {
		switch e := &entries[i]; e.Key.Kind {
		case entry.Config:
			p.addPool(view.Pool(e.Key.Pool), e, pools[e.Key.Pool])
		case entry.Session:
			p.addSession(view.Session(e.Key.Session), e, sessions[e.Key.Session])
		case entry.Slot:
			if s := slotOf(view, e); s == first[s.Value.Lease] {
				p.addLease(s, e)
			}
		}
	}
	return p
}

func load(b *Backup, now time.Time) (*rules.View, []entry.Entry) {
	view, entries := rules.New(), make([]entry.Entry, len(b.Entries))
	for i := range b.Entries {
		entries[i] = b.Entries[i].parse()
		if e := &entries[i]; e.Key.Kind == entry.Slot && e.Slot.After == 0 && e.Slot.Fence == 0 {
			e.Slot.Fence = e.Revision // in a bucket without a format number
		}
		view.Apply(&entries[i], max(0, now.Sub(entries[i].Time)), epoch)
		view.Touched() // otherwise each entry settles all pools before it again
	}
	return view, entries
}

func slotOf(view *rules.View, e *entry.Entry) *rules.Slot {
	if e.Key.Kind != entry.Slot {
		return nil
	}
	return view.Pool(e.Key.Pool).Slot(e.Key.N)
}

// addPool adds a registered pool, or a lock or semaphore that is in use. Any other lock
// or semaphore is opened again by its next user. A pool that was being closed is open
// again.
func (p *plan) addPool(pool *rules.Pool, e *entry.Entry, used bool) {
	if !pool.Exists() || pool.Terms().Named() && !used {
		return
	}
	value := e.Config
	value.Closing = false
	p.Pools++
	p.untimed = append(p.untimed, write(e.Key, value, 0))
}

// addSession adds a session that has not been idle for too long, or that holds a lease.
// Its idle time restarts, as after any time in which the stream was unavailable.
func (p *plan) addSession(s *rules.Session, e *entry.Entry, holds bool) {
	if s.Ends <= epoch && !holds {
		return
	}
	value := e.Session
	value.Idled = 0
	p.Sessions++
	p.untimed = append(p.untimed, write(e.Key, value, value.Left()+rules.Guard))
}

// addLease adds a lease. As with a renewed lease, its value contains the fence that the
// holder knows, which is not the revision of the new entry.
func (p *plan) addLease(s *rules.Slot, e *entry.Entry) {
	p.Leases++
	p.leases = append(p.leases, lease{e.Key, s.Rewritten(0), s.Ends.Sub(epoch) - rules.Slack})
}

// message returns the message that writes the lease at the time passed after the plan was
// made, or false if the lease has ended by then.
func (l *lease) message(passed time.Duration) (entry.Message, bool) {
	left := l.left - passed
	if left <= -rules.Slack {
		return entry.Message{}, false
	}
	value := l.value
	value.TTL = entry.Span(max(left, time.Millisecond))
	return write(l.key, value, value.TTL.Duration()+rules.Guard), true
}

func write(key entry.Key, value any, ttl time.Duration) entry.Message {
	m := entry.NewMessage(key, value, 0, ttl)
	m.Expect = entry.ExpectNothing
	return m
}
