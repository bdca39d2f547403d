package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

const (
	doubtTime   = time.Second             // rules.doubtTime
	refuseGrace = 1500 * time.Millisecond // peer.refuseGrace
)

// poolState is what the stream held of a pool at one instant.
type poolState struct {
	at         Instant
	config     *entry.Entry
	size, out  int // its size, and the positions out of service without a slot
	positions  int // single ones out of service
	leases     int
	doubtful   []*claim // of the slots, which leases does not count
	tickets    int
	registered bool
}

// needsStates reports whether the answer to a request must be right for one state of its pool.
// Await is refused when it has left the line, whatever the pool's state is.
func needsStates(r peer.Request) bool {
	switch r.(type) {
	case peer.Borrow, peer.Acquire, peer.Enqueue, peer.ReadPool:
		return true
	}
	return false
}

func (t *truth) state(p *poolTruth) *poolState {
	st := &poolState{at: t.s.now, config: p.config, size: p.size(), out: p.idleOut(), registered: p.registered()}
	for _, o := range p.config.Config.Out {
		if o.Position != entry.WholePool {
			st.positions++
		}
	}
	for _, e := range p.slots {
		claimed := t.claims[claimKey{e.Key, e.Fence()}]
		switch {
		case !t.holds(p, e):
			if e.Key.N < st.size && (p.isOut(e.Key.N) || p.isOut(entry.WholePool)) { // idleOut takes it for a slot
				st.out++
			}
		case claimed != nil && claimed.doubtful:
			st.doubtful = append(st.doubtful, claimed)
		default:
			st.leases++
		}
	}
	for _, w := range p.tickets {
		if p.registered() && t.lives(w) && p.stands(w) {
			st.tickets++
		}
	}
	return st
}

// lent returns the number of leases for an answer that was decided at the given instant. A claim
// is a lease from its entry to its purge, unless the other peers would not grant it, and it was
// younger than doubtTime.
func (st *poolState) lent(decided Instant) int {
	n := st.leases
	for _, c := range st.doubtful {
		if !c.doubtful || c.at.Add(doubtTime) <= decided {
			n++
		}
	}
	return n
}

// full reports whether the leases and the others that may have a permit left none.
func (st *poolState) full(decided Instant, others int) bool {
	return st.registered && st.size-st.out <= st.lent(decided)+others
}

func (st *poolState) usedUnderOther(t entry.Terms, decided Instant) bool {
	return st.registered && st.config.Config.Terms != t && (st.lent(decided) > 0 || st.tickets > 0 || st.positions > 0)
}

// checkStates fails the run if the answer to a call was right for no state that its pool had
// during the call. It waits until it is known which claims were granted.
func (k *checker) checkStates(c *call) {
	states := c.window.states
	c.window.states = nil
	if c.unknown() || k.mayReflectLoss(c) || k.losses.of(c) > c.start || k.s.server.mayRevive(c.target.pool) {
		return
	}
	var right func(*poolState) bool
	switch {
	case !needsStates(c.request):
		return
	case c.answer.Detail != nil && c.answer.Err == nil:
		right = func(st *poolState) bool { return st.shows(c.answer.Detail.State, c.decided) }
	case isAny(c.answer.Err, peer.ErrNoSlot):
		// So that tickets, and claims on their way, may have kept the permits.
		late := c.decided >= c.start.Add(refuseGrace) || c.target.wait > 0 && c.decided >= c.start.Add(c.target.wait)
		right = func(st *poolState) bool {
			return st.full(c.decided, 0) || late && st.full(c.decided, st.tickets+c.window.maxRivals)
		}
	case isAny(c.answer.Err, peer.ErrLimitMismatch) && c.decided < c.start.Add(refuseGrace) && !c.window.configChanged:
		right = func(st *poolState) bool { return st.usedUnderOther(c.target.terms, c.decided) }
	default:
		return
	}
	k.s.after(doubtTime, func() {
		if !slices.ContainsFunc(states, right) {
			k.wrong(c, fmt.Sprintf("the pool was in no such state: %s", describeStates(states)))
		}
	})
}

func (st *poolState) shows(a reads.State, decided Instant) bool {
	return st.registered && a.Count == st.size && a.InUse == st.lent(decided) && a.Waiting == st.tickets
}

func describeStates(states []*poolState) (text string) {
	for _, st := range states {
		text += fmt.Sprintf("\n  after %v: count %d, %d out, %d tickets, %d leases", st.at.Sub(start), st.size, st.out, st.tickets, st.leases)
		for _, c := range st.doubtful {
			text += fmt.Sprintf(", claim %d in doubt %t", c.revision, c.doubtful)
		}
	}
	return text
}
