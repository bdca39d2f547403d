package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// borrow is a lease in the making: for a call, or for an enqueued ticket.
type borrow struct {
	p     *Peer
	call  *call // nil for an enqueued ticket's
	pool  *poolState
	kind  kind
	phase phase
	wish

	generation uint64 // of the pool that it came for, once known
	confirmed  bool   // the pool had it at an instant after the borrow came
	current    bool   // the view was as new as the borrow, when it was exact
	sawFull    bool   // there was an instant, since it came, without a free slot
	waits      bool   // it stands in line if it has to
	queued     bool   // it has stood in line
	voids      int    // claims that came to nothing
	closed     uint64 // the revision of the configuration when it began to close the name, or found it closed
	refuseBy   Instant
	expiry     timer
	waitEnds   Instant
	again      func() // forEnqueue: has the call begin again

	ticket ticket
	claim  claim
}

// wish is the lease that is asked for.
type wish struct {
	lease, session, nonce entry.Hash
	ttl                   time.Duration
	label, owner          string
	terms                 entry.Terms // of a named pool
}

// kind is what a borrow does when there is nothing for it.
type kind uint8

// The kinds.
const (
	forCall    kind = iota // it stands in line for as long as its caller waits
	forEnqueue             // it leaves its session's ticket in the line, and is done
	forTicket              // it is an enqueued ticket's, which any peer may claim for
)

// ticket is a borrow's place in the line.
type ticket struct {
	key      entry.Key
	server   entry.Hash // the presence of the peer that claims for it
	revision uint64     // once seen
	place    uint64     // once seen
}

func (t *ticket) stands() bool { return t.place != 0 }

// claim is a borrow's latest attempt at a slot.
type claim struct {
	position int
	claimer  entry.Hash // the presence of this peer that it was written under
	stood    uint64     // the revision that it is written over
	revision uint64     // once seen
	acked    uint64     // the same, once acknowledged
	unsure   bool       // it went unanswered for so long that others may try the same position
	write    *write
}

func (r Borrow) begin(p *Peer, c *call) {
	p.start(&borrow{
		p: p, call: c, pool: p.pool(r.Pool), wish: wish{lease: r.Lease, ttl: r.TTL, label: r.Label},
	}, r.Wait)
}

func (r Acquire) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	p.start(&borrow{
		p: p, call: c, pool: p.pool(r.Pool),
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

// start takes up a borrow.
func (p *Peer) start(b *borrow, wait time.Duration) {
	b.call.borrow = b
	b.call.quit = func(why error) { b.finish(Answer{Err: why}) }
	if wait > 0 {
		b.call.bound(p.now.Add(wait + patience))
		b.waits, b.waitEnds = true, p.now.Add(wait)
		b.expiry.fire = func() { b.expire() }
		p.timers.start(&b.expiry, b.waitEnds)
	}
	b.pool.borrows++
	b.pool.queue = byArrival(b.pool.queue, b)
	b.pool.mark()
}

func (b *borrow) named() bool { return b.terms.Named() }

// expire ends the wait of a borrow that stands in line: it is refused, at once
// when there has been an instant without a free slot. A claim under way may still
// come to something.
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

// finish ends a borrow, and lets go of all that it had but its lease.
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
	case was == joining: // its ticket is purged when it is seen
	case b.kind == forEnqueue && a.Err == nil: // its ticket stays
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

// requeue puts a borrow whose attempt failed back in line, or in the queue if it has
// no ticket, or one that was served by a claim which was ended before its caller
// could be told, or may have been.
func (b *borrow) requeue() {
	var t *rules.Ticket
	if b.ticket.stands() {
		t = b.p.view.Pool(b.pool.id).Ticket(b.ticket.place)
	}
	switch {
	case b.phase == done:
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
		b.comeAgain()
	}
}

// comeAgain sends a borrow back to the queue.
func (b *borrow) comeAgain() {
	b.to(arrived)
	b.pool.queue = byArrival(b.pool.queue, b)
	b.pool.mark()
}

// byArrival puts a borrow into a list, in the order in which they came.
func byArrival(list []*borrow, b *borrow) []*borrow {
	i, _ := slices.BinarySearchFunc(list, b, func(x, y *borrow) int { return cmp.Compare(x.call.id, y.call.id) })
	return slices.Insert(list, i, b)
}

// anew takes a borrow back to where it came in: what it knew of its pool is no
// more.
func (b *borrow) anew() {
	b.leaveLine()
	b.generation, b.confirmed = 0, false
	b.comeAgain()
}

// serveLine lets the borrows claim whose turn it is.
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
		if !ok || !b.take(pool, position) {
			return
		}
	}
}

// borrowOf is the borrow that is to claim for a ticket, or nil.
func (ps *poolState) borrowOf(t *rules.Ticket) *borrow {
	if b := ps.promoting[t.Place]; b != nil {
		return b
	}
	if b := ps.tickets[t.Key]; b != nil && b.ticket.place == t.Place && b.kind == forCall {
		return b
	}
	return nil
}

// serveQueue decides about the borrows that have just come, in their order.
func (ps *poolState) serveQueue(pool *rules.Pool) {
	if len(ps.queue) == 0 {
		return
	}
	queue, blocked := ps.queue, false
	var stay []*borrow
	ps.queue = nil
	for _, b := range queue {
		if b.phase != arrived {
			continue
		}
		if blocked || !b.serve(pool, &blocked) {
			stay = append(stay, b)
		}
	}
	came := ps.queue // they have come again
	ps.queue = stay
	for _, b := range came {
		ps.queue = byArrival(ps.queue, b)
	}
}

// serve decides about a borrow that has just come. It returns false when that has
// to wait; blocked is set when those behind it have to wait as well.
func (b *borrow) serve(pool *rules.Pool, blocked *bool) bool {
	if b.obstacle(pool) != nil {
		b.refuseLater()
		return true
	}
	if b.named() && (!pool.Registered() || pool.Count() == 0) {
		*blocked = true
		return b.open(pool)
	}
	if b.named() && !pool.InUseOrWaited() && b.pool.overLocks() {
		b.finish(Answer{Err: ErrMaxLocks})
		return true
	}
	position, ok := pool.Choose(nil, &b.pool.flight)
	if !ok && (b.waits || b.kind == forEnqueue) && b.overWaiters(pool) {
		b.finish(Answer{Err: ErrMaxWaiters})
		return true
	}
	switch {
	case ok:
		taken := b.take(pool, position)
		*blocked = !taken
		return taken
	case !b.waits && b.kind == forCall:
		b.refuseLater()
		return true
	case len(b.pool.flight.Purges) > 0 || b.p.self.revision == 0:
		return false // a slot is being freed; or there is no presence to hold a ticket
	}
	return b.join()
}

// overWaiters reports whether the cap on waiters forbids a borrow to join.
func (b *borrow) overWaiters(pool *rules.Pool) bool {
	most := b.p.cfg.MaxWaiters
	return most > 0 && b.named() && pool.WaitingUpTo(most)+b.pool.flight.Joining >= most
}

// obstacle is why a borrow cannot have the pool as the view has it: because it is
// not registered, or another than the one that the borrow came for; or, if it is a
// named one, because it is open under other terms.
func (b *borrow) obstacle(pool *rules.Pool) error {
	switch {
	case !b.session.IsZero() && !b.p.view.Alive(b.session):
		return ErrSessionGone
	case b.named():
		if pool.Registered() {
			b.generation = pool.Generation()
			if pool.Terms() != b.terms {
				return ErrLimitMismatch
			}
		}
		return nil
	case !pool.Registered() || b.confirmed && b.generation != pool.Generation():
		return ErrNoPool
	}
	b.generation = pool.Generation()
	return nil
}
