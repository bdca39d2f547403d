package peer

import (
	"bytes"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// tick is the longest time between two calls of Tick while the view has a ticket that
// may be passed over, or a claim in doubt.
const tick = 100 * time.Millisecond

// Peer is one peer: see the package comment. It is not safe for concurrent use.
type Peer struct {
	*leases
	registry registry
	names    *names
	pools    *pools
	sessions *sessions
	look     look
	watch    watch
	ticksAt  Instant // when Tick is next called because the view waits; 0: it does not wait
}

// New returns a peer with an empty view. Its first Ready orders a reading.
func New(cfg Config, now Instant) *Peer {
	p := &Peer{}
	k := newKernel(cfg, now)
	p.leases = &leases{keeper: newKeeper(k, (*hub)(p))}
	p.registry.leases, p.look.leases, p.watch.kernel = p.leases, p.leases, k
	p.names = newNames(p.leases)
	p.pools = p.names.pools
	p.sessions = newSessions(p.leases)
	p.begin()
	return p
}

// Do begins a request of a caller. It returns the call's id, which Answer.Call and
// GiveUp use.
func (p *Peer) Do(r Request, now Instant) uint64 {
	p.setNow(now)
	c, id := p.beginCall()
	c.bound(now.Add(patience))
	if p.isStopping() {
		c.answer(Answer{Err: ErrClosed})
	} else {
		p.serve(r, c)
	}
	p.advance()
	return id
}

// GiveUp records that a caller is gone, and why. The call is still answered, with why
// unless it has an outcome that its caller must get.
func (p *Peer) GiveUp(id uint64, why error, now Instant) {
	p.setNow(now)
	if c := p.openCall(id); c != nil {
		c.end(why)
	}
	p.advance()
}

// Told records that the answer to a call reaches its caller only now, later than it was
// decided. It restarts the lease's ttl, as far as the other peers let the lease
// live.
func (p *Peer) Told(a *Answer, now Instant) {
	p.setNow(now)
	if !p.promiseAnew(a) {
		p.Untold(a, ErrUnavailable, now)
	}
}

// Untold records that a caller will get the error why in place of the answer. It purges
// a granted lease if no caller knows of it.
func (p *Peer) Untold(a *Answer, why error, now Instant) {
	p.setNow(now)
	p.takeBack(a)
	*a = Answer{Call: a.Call, Err: why}
	p.advance()
}

// ReadingStarted records that a reading has begun. Call it before Read for that reading.
func (p *Peer) ReadingStarted(number uint64, s StreamInfo, now Instant) {
	p.setNow(now)
	p.started(number, s)
	p.advance()
}

// ReadingLost records that a reading could not begin or was lost, or, after Ready.Joined has
// named it, that entries of the feed are lost.
func (p *Peer) ReadingLost(number uint64, now Instant) {
	p.setNow(now)
	p.lost(number)
	p.advance()
}

// Read applies an entry that a reading delivered. It may skip entries that were overwritten.
func (p *Peer) Read(number uint64, e entry.Entry, now Instant) {
	p.setNow(now)
	p.delivered(number, e)
	p.advance()
}

// Fed handles the next entry of the feed.
func (p *Peer) Fed(e entry.Entry, now Instant) {
	p.setNow(now)
	p.takeFed(e)
	p.advance()
}

// Acked handles an answer to a write, however late.
func (p *Peer) Acked(id uint64, a Ack, now Instant) {
	p.setNow(now)
	if p.noteAck(id, a) {
		p.advance()
	}
}

// Connected records that the connection is back: the peer sends its unanswered writes
// again.
func (p *Peer) Connected(now Instant) {
	p.setNow(now)
	p.sendAgain()
	p.advance()
}

// Tick records that time has passed.
func (p *Peer) Tick(now Instant) {
	p.setNow(now)
	p.ticksAt = 0
	p.ring()
	if p.isLive() {
		p.cleanUp()
	}
	p.advance()
}

// Ready returns what the caller has to do after an input. The slices are valid until
// the next input.
func (p *Peer) Ready() Ready {
	r := p.handOver()
	r.WakeAt = p.wakeAt()
	return r
}

// wakeAt returns when Tick must be called at the latest, or 0.
func (p *Peer) wakeAt() Instant {
	const never = Instant(1<<63 - 1)
	at := never
	if due, ok := p.nextAlarm(); ok {
		at = due
	}
	if p.isLive() {
		if due, ok := p.view().NextDue(); ok {
			at = min(at, due)
		}
		if !p.view().Waits() {
			p.ticksAt = 0
		} else {
			if p.ticksAt == 0 { // otherwise every input would put it off
				p.ticksAt = p.now().Add(tick)
			}
			at = min(at, p.ticksAt)
		}
	}
	if at == never {
		return 0
	}
	return max(at, p.now())
}

// Close ends every call with ErrClosed, and purges the peer's tickets and its
// presence. Idle reports when that is done.
func (p *Peer) Close(now Instant) {
	p.setNow(now)
	if p.isStopping() {
		return
	}
	for _, c := range p.openCalls() {
		c.end(ErrClosed)
	}
	p.advance()
	p.stop()
	for _, c := range p.openCalls() {
		c.answer(Answer{Err: ErrClosed})
	}
	p.leave()
}

// Idle reports whether no purge is pending that the caller of Close has to wait for.
func (p *Peer) Idle() bool {
	_, discards := p.countUnsettled()
	return discards == 0
}

// Watch has the peer make Events from now on, or no more. It returns the revision of the view,
// if that is live, and otherwise 0.
func (p *Peer) Watch(on bool) (revision uint64) {
	if p.watch.set(on); !p.isLive() {
		return 0
	}
	return p.view().Revision
}

// First reports whether this is the peer, of those that are alive, that does what only one of
// them has to do. For a while after a change of the peers, none or two may.
func (p *Peer) First() bool {
	self := p.self()
	for s := range p.view().Peers {
		if bytes.Compare(s.ID[:], self[:]) < 0 {
			return false
		}
	}
	return p.isPresent()
}

// Status returns nil if the peer can serve callers, and otherwise why it cannot.
func (p *Peer) Status(now Instant) error {
	switch {
	case p.isStopping():
		return ErrClosed
	case p.refusal() != "":
		return errors.New(p.refusal())
	case p.isLoading():
		return errors.New("the view is being loaded")
	case !p.isLive():
		return errors.New("the view is being caught up")
	case !p.isPresent():
		return errors.New("the presence cannot be written")
	case now.Sub(p.lastSeen()) > unseenLimit:
		return errors.New("the peer does not see its own writes")
	}
	return nil
}

// Loading reports whether the view is being loaded. If the caller gives up the reading then,
// the load begins anew, so it must be patient: a large bucket takes long on a slow machine.
func (p *Peer) Loading() bool { return p.isLoading() }

// View returns the view, for simulations, which compare it with the stream.
func (p *Peer) View() *rules.View { return p.view() }

// Counters returns the counts so far.
func (p *Peer) Counters() Counters { return *p.count() }

// Metrics returns the counts so far, and the measures of this instant. It looks at
// every ticket, and not at every pool.
func (p *Peer) Metrics(now Instant) (Counters, Gauges) {
	writes, _ := p.countUnsettled()
	g := Gauges{
		Pools: p.view().Registered, Named: p.view().InNames,
		Sessions: p.view().Clients, Peers: p.view().CountPeers(), WritesInFlight: writes, Revision: p.view().Revision,
	}
	var oldest Instant
	g.Waiting, oldest = p.view().Lines()
	if g.Waiting > 0 {
		g.OldestWait = max(0, now.Sub(oldest))
	}
	return *p.count(), g
}

// Taken returns how often this peer's borrows took each transition so far, including
// transitions that are not allowed.
func (p *Peer) Taken() map[Transition]uint64 { return p.pools.countSteps() }
