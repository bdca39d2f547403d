package peer

import (
	"iter"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// follow is a call of Follow: it is answered when its lease has ended.
type follow struct {
	call        *call
	pool, lease entry.Hash
}

// follows holds the calls of Follow.
type follows struct {
	*kernel
	byLease map[entry.Hash][]*follow
}

func (p *follows) begin(c *call, r Follow) {
	p.timers.stop(&c.limit)
	f := &follow{c, r.Pool, r.Lease}
	put(&p.byLease, r.Lease, append(p.byLease[r.Lease], f))
	c.reload = f.look
	c.quit = func(why error) {
		drop(p.byLease, r.Lease, f)
		c.answer(Answer{Err: why})
	}
	if p.feed.mode != live || f.over() {
		f.look()
	}
}

// look answers the call if a live view as new as now does not show the lease. tell
// needs no such view: the lease was in the view, and does not come back.
func (f *follow) look() {
	f.call.k.reads.whenCurrent(f.call, func() {
		if f.over() {
			f.call.end(nil)
		}
	})
}

func (f *follow) over() bool { return f.call.k.view.Pool(f.pool).Lease(f.lease, 0) == nil }

// tellAll answers the calls that follow one of the leases of slots, if that has ended.
func (p *follows) tellAll(slots iter.Seq[*rules.Slot]) {
	if len(p.byLease) > 0 {
		for s := range slots {
			p.tell(s.Value.Lease, entry.NoCause)
		}
	}
}

func (p *follows) tell(lease entry.Hash, cause entry.Cause) {
	if p.feed.mode != live {
		return
	}
	for _, f := range p.byLease[lease] {
		if f.over() {
			drop(p.byLease, lease, f)
			f.call.answer(Answer{Cause: cause})
		}
	}
}
