package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// naming is what the pools need of the rules for names and for idle pools.
type naming interface {
	open(b *borrow, pool *rules.Pool)        // opens a borrow's name
	restore(ps *poolState, pool *rules.Pool) // ends the closing of an idle pool
	reviewTerms(b *borrow, pool *rules.Pool) // decides about a borrow whose name is open under other terms
	overLocks(ps *poolState) bool            // the cap on names in use forbids another one
	noteOpening(ps *poolState)               // the claims in flight of a pool have changed, or its use
}

// borrow is the work to grant one lease, for a call or for an enqueued ticket.
type borrow struct {
	p    *pools
	call *call // nil for an enqueued ticket's
	pool *poolState
	purpose
	phase phase
	wish

	generation uint64  // of the pool; 0: not known yet
	confirmed  bool    // the pool had this generation at an instant after the borrow came
	current    bool    // the view has been live and as new as the borrow
	sawFull    bool    // the pool was full at an instant after the borrow came
	waits      bool    // it joins the line if there is no permit
	queued     bool    // it has waited in the line
	voids      int     // the number of its claims that the view showed, and that were void or came too late
	closedAt   uint64  // the revision of the configuration when it began to close the name, or found it being closed
	refuseBy   Instant // see refuseGrace
	expiry     timer
	waitEnds   Instant

	ticket ticket
	claim  claim
	adding [2]entry.Hash // the session and the origin for which noteAdding counts it
}

// wish is the requested lease.
type wish struct {
	lease, session, nonce entry.Hash
	origin                entry.Hash                            // of a borrow without a session
	request               entry.Hash                            // the request key; zero: none
	leaseOf               func(n int) (lease, nonce entry.Hash) // of claim n > 0; nil: all claims are for lease, since its holder also names the fence
	ttl                   time.Duration
	label, owner          string
	terms                 entry.Terms // of a named pool
}

// purpose is what a borrow is made for, and decides what differs with that: see byCall,
// byEnqueue and byTicket.
type purpose interface {
	enqueued() bool                       // the ticket is a session's, and stays in the line when no call waits
	ticketFor(b *borrow) *newTicket       // the ticket to join with; nil if the borrow has ended instead
	admitted(b *borrow)                   // the ticket stands in the line
	goesOn(t *rules.Ticket) bool          // whether to try again after a claim came to nothing; t may be nil
	grant(b *borrow, s *rules.Slot) bool  // answers with the lease; false if it is too late to
	ended(b *borrow, was phase, a Answer) // the borrow has its answer
}

// byCall is the purpose of the borrow for a call that waits in the line until its time is over.
type byCall struct{}

func (byCall) enqueued() bool { return false }

func (byCall) goesOn(*rules.Ticket) bool { return true }

func (byCall) ended(b *borrow, was phase, a Answer) { b.leaveLineAfter(was, a) }

func (byCall) admitted(b *borrow) {
	if !b.waits {
		b.refuseLater()
	}
}

// ticket is a borrow's place in the line.
type ticket struct {
	key      entry.Key
	revision uint64  // 0 until the view shows it
	place    uint64  // 0 until the view shows it
	until    Instant // to this instant it lives in the bucket, and for the guard
}

func (t *ticket) stands() bool { return t.place != 0 }

// claim is a borrow's latest claim.
type claim struct {
	position int
	number   int // counted from 0; of a borrow without leaseOf always 0
	write    *write
}

// newBorrow returns a borrow for a call, to which its wish is to be added.
func (p *pools) newBorrow(c *call, pool entry.Hash) *borrow {
	return &borrow{p: p, call: c, pool: p.of(pool), purpose: byCall{}}
}

// borrow begins a borrow, or repeats one that it finds by its request key.
func (p *pools) borrow(b *borrow, wait time.Duration) {
	if b.request.IsZero() {
		p.start(b, wait)
	} else {
		p.repeat(b, wait)
	}
}

// start puts a new borrow into its pool's queue.
func (p *pools) start(b *borrow, wait time.Duration) {
	b.call.work = b
	b.call.quit = func(why error) { b.finish(Answer{Err: why}) }
	if wait > 0 {
		b.call.bound(p.now.Add(wait + patience))
		b.waits, b.waitEnds = true, p.now.Add(wait)
		b.expiry.fire = func() { b.expire() }
		p.timers.start(&b.expiry, b.waitEnds)
	}
	b.pool.users++
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
	if a.Err == ErrNoSlot {
		a.Place = b.rank()
	}
	b.to(done)
	b.pool.users--
	b.p.timers.stop(&b.expiry)
	b.ended(b, was, a)
	if b.call != nil && b.call.work == b {
		b.call.quit = nil
		b.call.answer(a)
	}
	b.pool.mark()
}

// rank returns the place in line that the borrow has, or would get, from 1.
func (b *borrow) rank() int32 {
	pool := b.p.view.Pool(b.pool.id)
	if pool == nil {
		return 0
	}
	if t := pool.Ticket(b.ticket.place); t != nil {
		return int32(t.Rank())
	}
	return int32(pool.Waiting() + 1)
}

// requeue puts a borrow whose claim failed back in line. It goes back to the queue if
// it has no ticket, or if its ticket was, or may have been, used up by that claim.
func (b *borrow) requeue() {
	t := b.p.view.Pool(b.pool.id).Ticket(b.ticket.place)
	switch {
	case !b.goesOn(t):
		b.finish(Answer{Err: ErrNoSlot})
	case t != nil:
		b.to(waiting)
		if !b.joins() {
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
		if pool.Requested(b.request) != nil { // a claim would be void
			ps.lookForSlot(b)
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
	if b := ps.tickets[t.Key]; b != nil && b.ticket.place == t.Place && !b.enqueued() {
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
	if s := pool.Requested(b.request); s != nil {
		b.resume(pool, s)
		return true
	}
	switch {
	case b.obstacle(pool) != nil:
		b.refuseLater()
		return true
	case b.named() && (!pool.Exists() || pool.Closing()):
		b.p.names.open(b, pool)
		return false
	case pool.Closing():
		b.p.names.restore(b.pool, pool)
		return false
	}
	position, ok := pool.Choose(nil, &b.pool.flight)
	switch {
	case !ok && b.joins() && b.overWaiters(pool):
		if b.current {
			b.finish(Answer{Err: ErrMaxWaiters})
		} else {
			b.refuseLater() // review moves it back to the queue, in such a view
		}
	case ok && b.tryClaim(pool, position):
	case ok:
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
func (b *borrow) joins() bool { return b.waits || b.enqueued() }

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
	if obstacle != rules.SessionEnded && b.named() && (pool == nil || !pool.InUseOrWaited()) && b.p.names.overLocks(b.pool) {
		return ErrMaxLocks
	}
	if _, origin := b.holders(); obstacle == rules.NoObstacle && b.named() && !pool.Exists() && b.p.view.TombstonesReach(b.p.cfg.MaxTombstones, origin) {
		return ErrMaxTombstones
	}
	if obstacle != rules.SessionEnded {
		if err := b.overShare(true); err != nil {
			return err
		}
	}
	return [...]error{rules.SessionEnded: ErrSessionGone, rules.NotRegistered: ErrNoPool, rules.OtherTerms: ErrLimitMismatch}[obstacle]
}
