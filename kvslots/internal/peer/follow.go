package peer

import (
	"iter"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// follow is a call of Follow: it is answered when its lease, or its session, has ended.
type follow struct {
	p    *look
	call *call
	Follow
}

// look reads the view for callers.
type look struct {
	*leases
	follows map[entry.Hash][]*follow // the calls of Follow, by lease, and by session for those without a lease
}

func (p *look) follow(c *call, r Follow) {
	c.unbound()
	f, by := &follow{p: p, call: c, Follow: r}, r.Lease
	if by.IsZero() {
		by = r.Session
	}
	put(&p.follows, by, append(p.follows[by], f))
	c.onReload(f.look)
	c.onQuit(quitFunc(func(why error) {
		drop(p.follows, by, f)
		a := Answer{Err: why}
		if why == nil {
			a.Ended = f.over()
		}
		c.answer(a)
	}))
	if f.over() != nil {
		f.look()
	}
}

// look answers the call if a live view as new as now shows the end. tell needs no such view:
// what it follows was in the view, and does not come back.
func (f *follow) look() {
	f.p.whenCurrent(f.call, func() {
		if f.over() != nil {
			f.call.end(nil)
		}
	})
}

// over returns why what is followed has ended, or nil.
func (f *follow) over() error {
	if f.Lease.IsZero() && f.p.view().Alive(f.Session) {
		return nil
	}
	_, err := f.find(f.p.leases)
	return err
}

// applied answers the calls whose lease or session an entry has ended. before is the lease that a slot
// had.
func (p *look) applied(e *entry.Entry, before entry.Hash) {
	switch e.Key.Kind {
	case entry.Slot:
		p.tell(before)
	case entry.Session:
		if s := p.view().Session(e.Key.Session); s != nil && e.Marker {
			p.tellAll(slices.Values(s.Slots))
			p.tell(s.ID)
		}
	case entry.Config:
		if pool := p.view().Pool(e.Key.Pool); pool != nil {
			p.tellAll(pool.Slots)
		}
	}
}

func (p *look) tellAll(slots iter.Seq[*rules.Slot]) {
	if len(p.follows) > 0 {
		for s := range slots {
			p.tell(s.Value.Lease)
		}
	}
}

// tell answers the calls that follow a lease, or a session, if that has ended.
func (p *look) tell(of entry.Hash) {
	for _, f := range p.follows[of] {
		if f.over() != nil {
			f.call.end(nil)
		}
	}
}

func (p *look) countFollows() (n int) {
	for _, list := range p.follows {
		n += len(list)
	}
	return n
}
