package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// hub is a Peer as the keeper of its view sees it. What the view shows goes to the rooms from here.
type hub Peer

type holder struct {
	lease entry.Hash
	live  bool
}

func (p *Peer) holderBefore(e *entry.Entry) (h holder) {
	if e.Key.Kind == entry.Slot {
		if s := p.view().Pool(e.Key.Pool).Slot(e.Key.N); s != nil && s.Taken {
			h = holder{s.Value.Lease, s.Live()}
		}
	}
	return h
}

// apply applies one entry to the view, and updates this peer's pending work.
func (u *hub) apply(e *entry.Entry, age time.Duration) {
	p := (*Peer)(u)
	before := p.holderBefore(e)
	p.watch.before(e)
	p.view().Apply(e, age, p.now())
	p.watch.after(e)
	p.shown(e, before.live)
	p.applied(e)
	switch e.Key.Kind {
	case entry.Slot:
		p.pools.noteSlot(e)
	case entry.Ticket:
		p.pools.noteTicket(e)
	case entry.Session:
		p.sessions.note(e)
		if e.Key == p.selfKey() { // borrows cannot join the line without it
			p.pools.markAll()
		}
		if s := p.view().Session(e.Key.Session); s != nil && e.Marker {
			p.pools.peerGone(s)
		}
	}
	if p.isLive() { // a reading may skip the entries between the lease and the marker of a later one
		p.noteEnding(before.lease, e.Cause)
	}
}

func (u *hub) restart() { u.pools.restart() }

func (u *hub) becameLive() {
	p := (*Peer)(u)
	p.watch.startsOver()
	p.pools.purgeOrphans()
	p.pools.markAll()
	p.cleanUp()
}

func (u *hub) presenceLost() { u.pools.presenceLost() }

// advance advances every pool and read as far as the view allows. What the pools do may touch others.
func (p *Peer) advance() {
	for more := true; more; more = p.isLive() && p.pools.serve() {
		p.sendWaiting()
		for _, pool := range p.view().Touched() {
			p.touched(pool)
		}
		if p.isLive() {
			p.fireReads()
		}
	}
}

// touched is called when anything may have changed in a pool.
func (p *Peer) touched(pool *rules.Pool) {
	if p.isLive() {
		p.pools.promote(pool)
		p.names.plan()
	}
	p.pools.touched(pool)
}
