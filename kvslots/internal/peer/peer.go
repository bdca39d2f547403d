package peer

import (
	"bytes"
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Peer is one peer: see the package comment. It is not safe for concurrent use.
type Peer struct {
	*kernel
	pools    pools
	names    names
	sessions sessions
	enqueued enqueued
	follows  follows
}

// New returns a peer with an empty view. Its first Ready orders a reading.
func New(cfg Config, now Instant) *Peer {
	p := &Peer{}
	k := newKernel(cfg, now, (*work)(p))
	p.kernel = k
	p.pools = pools{kernel: k, byID: map[entry.Hash]*poolState{}, names: &p.names}
	p.names = names{pools: &p.pools, closer: idleCloser{n: &p.names}}
	p.sessions = sessions{kernel: k, byID: map[entry.Hash]*sessionState{}}
	p.enqueued = enqueued{pools: &p.pools, awaits: map[sessionPool][]*await{}}
	p.follows.kernel = k
	p.newView()
	p.feed.order(0)
	return p
}

// Do begins a request of a caller. It returns the call's id, which Answer.Call and
// GiveUp use.
func (p *Peer) Do(r Request, now Instant) uint64 {
	p.now = now
	c := p.calls.begin()
	c.bound(now.Add(patience))
	if p.stopping {
		c.answer(Answer{Err: ErrClosed})
	} else {
		r.begin(p, c)
	}
	p.advance()
	return c.id
}

// GiveUp records that a caller is gone, and why. The call is still answered, with why
// unless it has an outcome that its caller must get.
func (p *Peer) GiveUp(id uint64, why error, now Instant) {
	p.now = now
	if c := p.calls.open[id]; c != nil {
		c.end(why)
	}
	p.advance()
}

// Tick records that time has passed.
func (p *Peer) Tick(now Instant) {
	p.now, p.ticksAt = now, 0
	p.timers.run(now)
	if p.feed.mode == live {
		p.cleanUp()
	}
	p.advance()
}

// Close ends every call with ErrClosed, and purges the peer's tickets and its
// presence. Idle reports when that is done.
func (p *Peer) Close(now Instant) {
	p.now = now
	if p.stopping {
		return
	}
	for _, c := range p.calls.all() {
		c.end(ErrClosed)
	}
	p.advance()
	p.stopping = true
	for _, c := range p.calls.all() {
		c.answer(Answer{Err: ErrClosed})
	}
	p.self.leave()
}

// Idle reports whether no purge is pending that the caller of Close has to wait for.
func (p *Peer) Idle() bool {
	return p.writes.discarding == 0
}

// Watch has the peer make Events from now on, or no more. It returns the revision of the view,
// if that is live, and otherwise 0.
func (p *Peer) Watch(on bool) (revision uint64) {
	if p.watched = on; p.feed.mode != live {
		return 0
	}
	return p.view.Revision
}

// First reports whether this is the peer, of those that are alive, that does what only one of
// them has to do. For a while after a change of the peers, none or two may.
func (p *Peer) First() bool {
	for s := range p.view.Peers {
		if bytes.Compare(s.ID[:], p.self.id[:]) < 0 {
			return false
		}
	}
	return p.self.revision != 0
}

// Status returns nil if the peer can serve callers, and otherwise why it cannot.
func (p *Peer) Status(now Instant) error {
	switch {
	case p.stopping:
		return ErrClosed
	case p.writes.refused != "":
		return errors.New(p.writes.refused)
	case p.feed.mode == loading:
		return errors.New("the view is being loaded")
	case p.feed.mode == catching:
		return errors.New("the view is being caught up")
	case p.self.revision == 0:
		return errors.New("the presence cannot be written")
	case now.Sub(p.self.sentAt) > unseenLimit:
		return errors.New("the peer does not see its own writes")
	}
	return nil
}

// work is a Peer as its kernel sees it.
type work Peer

func (w *work) restart() { w.pools.restart() }

func (w *work) applied(e *entry.Entry, before holder, own bool) {
	p := (*Peer)(w)
	switch e.Key.Kind {
	case entry.Slot:
		p.pools.noteSlot(e, own, p.feed.mode == loading)
		p.enqueued.changed(e.Key.Pool, before.session)
		if e.Slot.Session != before.session {
			p.enqueued.changed(e.Key.Pool, e.Slot.Session)
		}
	case entry.Ticket:
		p.pools.noteTicket(e)
		p.enqueued.changed(e.Key.Pool, e.Key.Session)
	case entry.Session:
		p.sessions.note(e)
		if e.Key == p.self.key() { // borrows cannot join the line without it
			p.pools.markAll()
		}
		if s := p.view.Session(e.Key.Session); s != nil && e.Marker {
			p.pools.peerGone(s)
		}
	}
	if p.feed.mode == live {
		p.follows.applied(e, before.lease)
	}
}

func (w *work) becameLive() {
	if w.watched {
		w.out.ready.Events = append(w.out.ready.Events, Event{Kind: StartsOver, Revision: w.view.Revision, Time: w.view.Time})
	}
	w.pools.purgeOrphans()
	w.pools.markAll()
	for _, c := range w.calls.all() {
		if c.reload != nil {
			c.reload()
		}
	}
	(*Peer)(w).cleanUp()
}

func (w *work) touched(pool *rules.Pool) {
	if w.feed.mode == live {
		w.enqueued.promote(pool)
		w.names.closer.plan()
	}
	if ps := w.pools.byID[pool.ID]; ps != nil {
		ps.mark()
	}
}

func (w *work) advance() bool {
	if len(w.pools.dirty) == 0 || w.feed.mode != live {
		return false
	}
	w.pools.serve()
	return true
}

func (w *work) presenceLost()               { w.pools.presenceLost() }
func (w *work) park(c *call, a Answer) bool { return w.sessions.park(c, a) }
func (w *work) delivered(c *call)           { w.sessions.left(c) }

// Taken returns how often this peer's borrows took each transition so far, including
// transitions that are not allowed.
func (p *Peer) Taken() map[Transition]uint64 {
	taken := map[Transition]uint64{}
	for from := range p.pools.steps {
		for to, n := range p.pools.steps[from] {
			if n > 0 {
				taken[Transition{phase(from).String(), phase(to).String()}] = n
			}
		}
	}
	return taken
}
