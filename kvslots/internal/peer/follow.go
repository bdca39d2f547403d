package peer

import (
	"iter"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// follow is a call of Follow: it is answered when its lease, or its session, has ended.
type follow struct {
	call *call
	Follow
	cause entry.Cause // of its end
}

// follows holds the calls of Follow, by lease, and by session for those without a lease.
type follows struct {
	*kernel
	byHash map[entry.Hash][]*follow
}

func (p *follows) follow(c *call, r Follow) {
	p.timers.stop(&c.limit)
	f, by := &follow{call: c, Follow: r}, r.Lease
	if by.IsZero() {
		by = r.Session
	}
	put(&p.byHash, by, append(p.byHash[by], f))
	c.reload = f.look
	c.quit = quitFunc(func(why error) {
		drop(p.byHash, by, f)
		a := Answer{Err: why}
		if why == nil {
			a.Ended = &Ended{f.over(), f.cause}
		}
		c.answer(a)
	})
	if f.over() != nil {
		f.look()
	}
}

// look answers the call if a live view as new as now shows the end. tell needs no such view:
// what it follows was in the view, and does not come back.
func (f *follow) look() {
	f.call.k.reads.whenCurrent(f.call, func() {
		if f.over() != nil {
			f.call.end(nil)
		}
	})
}

// over returns why what is followed has ended, or nil.
func (f *follow) over() error {
	view := f.call.k.view
	pool := view.Pool(f.Pool)
	switch {
	case !f.Session.IsZero() && !view.Alive(f.Session):
		return ErrSessionGone
	case f.Lease.IsZero():
		return nil
	case !pool.Exists():
		return ErrNoPool
	case pool.Lease(f.Lease, 0) == nil:
		return ErrNotHeld
	}
	return nil
}

// applied answers the calls whose lease or session an entry has ended. before is the lease that a slot
// had.
func (p *follows) applied(e *entry.Entry, before entry.Hash) {
	switch e.Key.Kind {
	case entry.Slot:
		p.tell(before, e.Cause)
	case entry.Session:
		if s := p.view.Session(e.Key.Session); s != nil && e.Marker {
			p.tellAll(slices.Values(s.Slots))
			p.tell(s.ID, entry.NoCause)
		}
	case entry.Config:
		if pool := p.view.Pool(e.Key.Pool); pool != nil {
			p.tellAll(pool.Slots)
		}
	}
}

func (p *follows) tellAll(slots iter.Seq[*rules.Slot]) {
	if len(p.byHash) > 0 {
		for s := range slots {
			p.tell(s.Value.Lease, entry.NoCause)
		}
	}
}

// tell answers the calls that follow a lease, or a session, if that has ended.
func (p *follows) tell(of entry.Hash, cause entry.Cause) {
	for _, f := range p.byHash[of] {
		if f.over() != nil {
			f.cause = cause
			f.call.end(nil)
		}
	}
}
