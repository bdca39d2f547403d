package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// borrow is the work to grant one lease, for a call or for an enqueued ticket.
type borrow struct {
	p     *Peer
	call  *call // nil for an enqueued ticket's
	pool  *poolState
	kind  kind
	phase phase
	wish

	generation uint64  // of the pool; 0: not known yet
	confirmed  bool    // the pool had this generation at an instant after the borrow came
	current    bool    // the view has been exact and as new as the borrow
	sawFull    bool    // the pool was full at an instant after the borrow came
	waits      bool    // it joins the line if there is no permit
	queued     bool    // it has waited in the line
	voids      int     // the number of its claims that the view showed, and that were void or came too late
	closedAt   uint64  // the revision of the configuration when it began to close the name, or found it being closed
	refuseBy   Instant // see refuseGrace
	expiry     timer
	waitEnds   Instant
	joinAt     Instant // see starves
	again      func()  // of forEnqueue: starts the call again

	ticket ticket
	claim  claim
}

// wish is the requested lease.
type wish struct {
	lease, session, nonce entry.Hash
	leaseOf               func(n int) entry.Hash // of claim n > 0; nil: all claims are for lease, since its holder also names the fence
	ttl                   time.Duration
	label, owner          string
	terms                 entry.Terms // of a named pool
}

// kind is what a borrow is made for.
type kind uint8

const (
	forCall    kind = iota // for a call that waits in the line until its time is over
	forEnqueue             // for a call that leaves its session's ticket in the line, and is answered
	forTicket              // for an enqueued ticket, which any peer may claim for
)

// ticket is a borrow's place in the line.
type ticket struct {
	key      entry.Key
	revision uint64 // 0 until the view shows it
	place    uint64 // 0 until the view shows it
}

func (t *ticket) stands() bool { return t.place != 0 }

// claim is a borrow's latest claim.
type claim struct {
	position int
	number   int // counted from 0; of a borrow without leaseOf always 0
	lease    entry.Hash
	claimer  entry.Hash // the presence of this peer when it sent the claim
	expected uint64     // the revision that the claim expects
	revision uint64     // 0 until the view shows it
	acked    uint64     // the same revision; 0 until it is acknowledged
	overdue  bool       // unanswered for so long that other borrows may claim the position
	write    *write
}

func (r Borrow) begin(p *Peer, c *call) {
	p.start(&borrow{
		p: p, call: c, pool: p.pools.of(r.Pool), wish: wish{lease: r.Lease, leaseOf: r.LeaseOf, ttl: r.TTL, label: r.Label},
	}, r.Wait)
}

func (r Acquire) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	p.start(&borrow{
		p: p, call: c, pool: p.pools.of(r.Pool),
		wish: wish{lease: r.Lease, ttl: r.TTL, owner: r.Owner, session: r.Session, nonce: r.Nonce, terms: r.terms()},
	}, r.Wait)
}

func (r *Resource) terms() entry.Terms {
	t := entry.Terms{Name: r.Name, Dialect: r.Dialect, Lock: r.Lock, Limit: r.Limit}
	if t.Lock {
		t.Limit = 1
	}
	return t
}

// start puts a new borrow into its pool's queue.
func (p *Peer) start(b *borrow, wait time.Duration) {
	b.call.borrow = b
	b.call.quit = func(why error) { b.finish(Answer{Err: why}) }
	if wait > 0 {
		b.call.bound(p.now.Add(wait + patience))
		b.waits, b.waitEnds = true, p.now.Add(wait)
		b.expiry.fire = func() { b.expire() }
		p.timers.start(&b.expiry, b.waitEnds)
	}
	b.joinAt = p.now.Add(rules.StallTime / 2)
	b.pool.borrows++
	b.enlist()
}

func (b *borrow) named() bool { return b.terms.Named() }

// expire ends the wait of a borrow. A borrow in the line is refused, at once if its pool
// was full at some instant since it came. A claim in flight may still be granted.
func (b *borrow) expire() {
	b.waits = false
	switch b.phase {
	case waiting:
		if b.sawFull {
			b.finish(Answer{Err: ErrNoSlot})
		} else {
			b.refuseLater()
		}
	case arrived:
		b.pool.mark()
	}
}

// finish ends a borrow with an answer. It drops the borrow's ticket, and its claim
// unless that is granted.
func (b *borrow) finish(a Answer) {
	if b.phase == done {
		return
	}
	was := b.phase
	b.to(done)
	b.pool.borrows--
	b.p.timers.stop(&b.expiry)
	if was == claiming && a.Err != nil {
		b.abandonClaim()
	}
	switch {
	case b.kind == forTicket:
		delete(b.pool.promoting, b.ticket.place)
	case was == joining: // noteTicket purges its ticket
	case b.kind == forEnqueue && a.Err == nil: // its ticket stays in the line
		delete(b.pool.tickets, b.ticket.key)
	default:
		b.leaveLine()
	}
	if b.call != nil && b.call.borrow == b {
		b.call.quit = nil
		b.call.answer(a)
	}
	b.pool.mark()
}

// requeue puts a borrow whose claim failed back in line. It goes back to the queue if
// it has no ticket, or if its ticket was, or may have been, used up by that claim.
func (b *borrow) requeue() {
	t := b.p.view.Pool(b.pool.id).Ticket(b.ticket.place)
	switch {
	case b.kind == forTicket && (t == nil || !t.Stands()):
		b.finish(Answer{Err: ErrNoSlot})
	case t != nil && !(t.Unsure && b.kind == forCall):
		b.to(waiting)
		if !b.waits && b.kind == forCall {
			b.refuseLater()
		}
		b.pool.mark()
	default:
		b.leaveLine()
		b.backToQueue()
	}
}

func (b *borrow) backToQueue() {
	b.to(arrived)
	b.enlist()
}

// enlist puts a borrow into its pool's queue, unless it is there.
func (b *borrow) enlist() {
	queue := &b.pool.queue
	i, found := slices.BinarySearchFunc(*queue, b, func(x, y *borrow) int { return cmp.Compare(x.call.id, y.call.id) })
	if !found {
		*queue = slices.Insert(*queue, i, b)
	}
	b.pool.mark()
}

// restart makes a borrow start again, because its pool has another generation now.
func (b *borrow) restart() {
	b.leaveLine()
	b.generation, b.confirmed = 0, false
	b.backToQueue()
}

// serveLine claims for the borrows whose tickets' turn it is.
func (ps *poolState) serveLine(pool *rules.Pool) {
	if pool == nil || len(ps.tickets)+len(ps.promoting) == 0 {
		return
	}
	for _, t := range pool.Able() {
		b := ps.borrowOf(t)
		if b == nil || b.phase != waiting && b.phase != refusing {
			continue
		}
		position, ok := pool.Choose(t, &ps.flight)
		if !ok || !b.tryClaim(pool, position) {
			return
		}
	}
}

// borrowOf returns the borrow that claims for a ticket, or nil.
func (ps *poolState) borrowOf(t *rules.Ticket) *borrow {
	if b := ps.promoting[t.Place]; b != nil {
		return b
	}
	if b := ps.tickets[t.Key]; b != nil && b.ticket.place == t.Place && b.kind == forCall {
		return b
	}
	return nil
}

// serveQueue serves the borrows that have arrived, in that order.
func (ps *poolState) serveQueue(pool *rules.Pool) {
	for _, b := range ps.queue {
		if b.phase == arrived && !b.serve(pool) {
			return
		}
	}
}

// serve decides what to do with a borrow that has arrived. It returns false if those
// behind it have to wait until the view changes.
func (b *borrow) serve(pool *rules.Pool) bool {
	switch {
	case b.obstacle(pool) != nil:
		b.refuseLater()
		return true
	case b.named() && (!pool.Exists() || pool.Closing()):
		b.open(pool)
		return false
	case pool.Closing():
		b.pool.restore(pool)
		return false
	}
	position, ok := pool.Choose(nil, &b.pool.flight)
	switch {
	case !ok && b.joins() && b.overWaiters(pool):
		if b.current && b.p.view.Exact() {
			b.finish(Answer{Err: ErrMaxWaiters})
		} else {
			b.refuseLater() // review moves it back to the queue, in such a view
		}
	case ok && b.tryClaim(pool, position):
	case ok && !b.starves(pool, position):
		return false
	case !b.joins():
		b.refuseLater()
	case len(b.pool.flight.Purges) > 0 || b.p.self.revision == 0:
		// A slot is being freed, or this peer has no presence to hold a ticket.
	default:
		b.join()
	}
	return true
}

// joins reports whether the borrow joins the line if there is no permit for it.
func (b *borrow) joins() bool { return b.waits || b.kind == forEnqueue }

// starves reports whether claims in doubt have delayed a borrow for so long that it has to
// join the line, if it may. Other peers leave a slot for a ticket. Without one, a peer with
// a late view may find new claims in doubt again and again.
func (b *borrow) starves(pool *rules.Pool, position int) bool {
	return b.joins() && b.p.now >= b.joinAt && pool.DoubtBelow(position, b.p.now)
}

// overWaiters reports whether the cap on waiters forbids the borrow to join.
func (b *borrow) overWaiters(pool *rules.Pool) bool {
	most := b.p.cfg.MaxPoolWaiters
	if b.named() {
		most = b.p.cfg.MaxWaiters
	}
	return pool.LineReaches(most, b.pool.flight.Joining)
}

// obstacle returns why the borrow cannot be served, according to the view, or nil. It also
// sets b.generation. review decides whether the view may be trusted.
func (b *borrow) obstacle(pool *rules.Pool) error {
	known := uint64(0)
	if b.confirmed {
		known = b.generation
	}
	obstacle := b.p.view.Obstacle(pool, b.session, b.terms, known)
	if pool.Exists() && (obstacle == rules.NoObstacle || obstacle == rules.OtherTerms) {
		b.generation = pool.Generation()
	}
	if obstacle != rules.SessionEnded && b.named() && (pool == nil || !pool.InUseOrWaited()) && b.pool.overLocks() {
		return ErrMaxLocks
	}
	return [...]error{rules.SessionEnded: ErrSessionGone, rules.NotRegistered: ErrNoPool, rules.OtherTerms: ErrLimitMismatch}[obstacle]
}
