package peer

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type naming interface {
	open(b *borrow, pool *rules.Pool)        // opens a borrow's name
	restore(pool *rules.Pool)                // ends the closing of an idle pool
	reviewTerms(b *borrow, pool *rules.Pool) // decides about a borrow whose name is open under other terms
}

// borrow is the work to grant one lease: for the callers of one request, or for an enqueued
// ticket. Calls with one request key share a borrow.
type borrow struct {
	p       *pools
	pool    *poolState
	number  uint64 // in the order of arrival
	callers []*caller
	first   caller // the memory of the first one
	again   func() // starts an Enqueue again, which is answered when its ticket stands
	awaited
	phase phase
	wish

	generation uint64  // of the pool; 0: not known yet
	confirmed  bool    // the pool had this generation at an instant after the borrow came
	queued     bool    // it has waited in the line of the generation
	stays      bool    // it keeps its place without a caller, since its latest caller waited
	voids      int     // the number of its claims that the view showed, and that were void or came too late
	closedAt   uint64  // the revision of the configuration when it began to close the name, or found it being closed
	refuseBy   Instant // see refuseGrace

	ticket ticket
	claim  claim
	index  int // in pools.listed
}

func (b *borrow) to(f phase) {
	b.p.steps[b.phase][f]++
	b.phase = f
}

// countSteps returns how often the borrows took each transition.
func (p *pools) countSteps() map[Transition]uint64 {
	taken := map[Transition]uint64{}
	for from := range p.steps {
		for to, n := range p.steps[from] {
			if n > 0 {
				taken[Transition{phase(from).String(), phase(to).String()}] = n
			}
		}
	}
	return taken
}

type wish struct {
	lease, session, nonce entry.Hash
	origin                entry.Hash                            // of a borrow of a name without a session
	from                  entry.Hash                            // the origin of a borrow of a registered pool
	request               entry.Hash                            // the request key; zero: none
	awaits                bool                                  // it is a call of Await
	leaseOf               func(n int) (lease, nonce entry.Hash) // of claim n > 0; nil: all claims are for lease, since its holder also names the fence
	ttl                   time.Duration
	label, owner          string
	terms                 entry.Terms // of a named pool
}

type claim struct {
	number int // counted from 0; of a borrow without leaseOf always 0
	write  *write
}

// borrow begins a borrow for a call, or lets it share the one that this peer has begun for its
// request key.
func (p *pools) borrow(c *call, pool entry.Hash, w *wish, wait time.Duration) {
	ps := p.of(pool)
	switch b := ps.requests[w.request]; {
	case w.request.IsZero():
		p.start(ps, w).add(c, nil, wait)
	case b == nil:
		b = p.start(ps, w)
		put(&ps.requests, w.request, b)
		b.add(c, nil, wait)
	case b.differs(w):
		p.refuseReused(c, pool, w, wait)
	default:
		if b.add(c, w, wait); wait > 0 {
			b.takePlace() // the peer that has it may have died since
		}
	}
}

// start begins a borrow in its pool's queue, to which a caller is to be added.
func (p *pools) start(ps *poolState, w *wish) *borrow {
	p.lastBorrow++
	b := &borrow{p: p, pool: ps, wish: *w, number: p.lastBorrow, index: len(p.listed)}
	ps.users++
	p.listed = append(p.listed, b)
	b.enlist()
	return b
}

func (p *pools) unlist(b *borrow) {
	b.pool.users--
	if b.pool.requests[b.request] == b {
		delete(b.pool.requests, b.request)
	}
	last := len(p.listed) - 1
	p.listed[b.index] = p.listed[last]
	p.listed[b.index].index = b.index
	p.listed[last] = nil
	p.listed = p.listed[:last]
}

func (p *pools) borrows() []*borrow {
	return slices.SortedFunc(slices.Values(p.listed), func(x, y *borrow) int { return cmp.Compare(x.number, y.number) })
}

func (b *borrow) named() bool { return b.terms.Named() }

// enqueued reports whether the ticket is a session's, and stays in the line when no call waits.
func (b *borrow) enqueued() bool { return b.again != nil || b.awaits }

// finish ends a borrow with an answer to its callers. It drops the borrow's ticket, and its
// claim unless that is granted.
func (b *borrow) finish(a Answer) {
	if b.phase == done {
		return
	}
	was, place := b.phase, 0
	if a.Err == ErrNoSlot && !b.awaits {
		place = b.rank()
	}
	b.to(done)
	b.p.unlist(b)
	b.leaveLineAfter(was, a)
	callers := b.callers
	b.callers = nil
	if a.Err == nil && (len(callers) > 1 || len(callers) == 1 && callers[0].wish != nil) {
		callers = b.share(&a, callers)
	}
	for _, c := range callers {
		c.end(a, place)
	}
	b.pool.mark()
}

// share prepares an answer to several callers: one of them has the lease although another one may
// not be told. A call that came after the slot was written begins anew, and resumes the lease.
func (b *borrow) share(a *Answer, callers []*caller) (inTime []*caller) {
	for _, c := range callers {
		if c.came <= a.Grant.basis.sent || b.awaits {
			inTime = append(inTime, c)
		} else {
			c.again()
		}
	}
	if a.Grant.share(len(inTime)); len(inTime) == 0 {
		b.p.takeOff(a.Grant.basis.key, a.Grant.Sharers.answer, 0, func() {})
	}
	return inTime
}

// leave ends a borrow that has no caller any more, or has it keep its place for a repeat.
func (b *borrow) leave(why error) {
	keeps := b.stays && b.grace() > 0 && (errors.Is(why, ErrPlaceKept) || errors.Is(why, ErrNoSlot)) && b.ticket.key != (entry.Key{})
	switch {
	case len(b.callers) > 0 || b.phase == done:
	case !keeps:
		if !b.stays {
			b.dropPlace()
		}
		b.finish(Answer{Err: why})
	case b.phase == waiting:
		b.sendAway()
	default: // its write comes first
	}
}

// dropPlace purges the place that is kept for the borrow's request key, if no peer has a caller.
func (b *borrow) dropPlace() {
	if t := b.p.view().Pool(b.pool.id).PlaceOf(b.request); t != nil && t.Absent() {
		b.p.discard(t.Key, t.Revision, nil)
	}
}

// grace returns how long the place is kept when no caller waits; 0: not at all.
func (b *borrow) grace() time.Duration {
	if b.request.IsZero() || b.enqueued() {
		return 0
	}
	return b.p.settings().ResumeGrace
}

// rank returns the place in line that the borrow has, or would get, from 1.
func (b *borrow) rank() int {
	pool := b.p.view().Pool(b.pool.id)
	if pool == nil {
		return 0
	}
	if t := cmp.Or(pool.Ticket(b.ticket.place), pool.PlaceOf(b.request)); t != nil {
		return t.Rank()
	}
	return pool.Waiting() + 1
}

// requeue puts a borrow whose claim failed back in line. It goes back to the queue if
// it has no ticket, or if its ticket was, or may have been, used up by that claim.
func (b *borrow) requeue() {
	t := b.p.view().Pool(b.pool.id).Ticket(b.ticket.place)
	if t != nil {
		b.wait()
		return
	}
	b.leaveLine()
	b.backToQueue()
}

func (b *borrow) wait() {
	b.to(waiting)
	b.pool.mark()
	if len(b.callers) == 0 && !b.enqueued() {
		b.sendAway()
	}
}

// backToQueue begins a borrow anew that has no place in the line. Without a caller it ends.
func (b *borrow) backToQueue() {
	b.to(arrived)
	switch {
	case b.awaits:
		b.p.whenLive(b.attend)
	case len(b.callers) == 0:
		b.finish(Answer{Err: ErrNoSlot})
		return
	}
	b.enlist()
}

func (b *borrow) enlist() {
	queue := &b.pool.queue
	i, found := slices.BinarySearchFunc(*queue, b, func(x, y *borrow) int { return cmp.Compare(x.number, y.number) })
	if !found {
		*queue = slices.Insert(*queue, i, b)
	}
	b.pool.mark()
}

// restart makes a borrow start again, because its pool has another generation now.
func (b *borrow) restart() {
	b.leaveLine()
	b.generation, b.confirmed, b.queued = 0, false, false
	b.backToQueue()
}

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
	if b.awaits {
		b.attend()
		return true
	}
	if s := pool.Requested(b.request); s != nil {
		b.resume(pool, s)
		return true
	}
	switch err := b.obstacle(pool); {
	case err == ErrLimitMismatch:
		if b.isCurrent() {
			b.p.names.reviewTerms(b, pool)
		}
		return true
	case err != nil:
		b.refuse(err)
		return true
	case b.named() && (!pool.Exists() || pool.Closing()):
		b.p.names.open(b, pool)
		return false
	case pool.Closing():
		b.p.names.restore(pool)
		b.pool.markLater()
		return false
	}
	position, ok := b.choose(pool)
	switch {
	case ok && b.pool.mayTake(pool.Slot(position), position):
		b.sendClaim(position, b.generation)
	case ok:
		return false
	case b.mayJoin(pool):
		b.join(pool)
	}
	return true
}

// mayJoin reports whether a borrow joins the line now. Otherwise it is refused, or served again later.
func (b *borrow) mayJoin(pool *rules.Pool) bool {
	switch {
	case !b.joins(): // reviewRefusals refuses it
	case b.overWaiters(pool) && b.p.view().DropPlace(pool, b.waiter(), b.p.now()):
		b.pool.markLater()
	case b.overWaiters(pool):
		b.refuse(ErrMaxWaiters)
	case b.p.isFreeing(b.pool.id, math.MaxInt):
		b.pool.markLater()
	case !b.p.isPresent(): // this peer has no presence to hold a ticket
	default:
		return true
	}
	return false
}

func (b *borrow) choose(pool *rules.Pool) (position int, ok bool) {
	return pool.Choose(pool.Ticket(b.ticket.place), b.p.inFlight(b.pool.id))
}

// joins reports whether the borrow joins the line if there is no permit for it.
func (b *borrow) joins() bool { return b.waitEnds() > b.p.now() || b.enqueued() }

// overWaiters reports whether the cap on waiters forbids the borrow to join.
func (b *borrow) overWaiters(pool *rules.Pool) bool {
	most := b.p.settings().MaxPoolWaiters
	if b.named() {
		most = b.p.settings().MaxWaiters
	}
	return pool.LineReaches(most, b.p.inFlight(b.pool.id).Joining) && pool.PlaceOf(b.request) == nil
}

// obstacle returns why the borrow cannot be served, however many slots are free, according to the
// view, or nil. A named pool need not exist, since the borrow opens it. An operator may change the limit of a
// semaphore: then a borrow that has waited in its line goes on. obstacle also sets b.generation.
// Its callers decide whether the view may be trusted.
func (b *borrow) obstacle(pool *rules.Pool) error {
	switch {
	case !b.session.IsZero() && !b.p.view().Alive(b.session):
		return ErrSessionGone
	case !b.named() && (!pool.Exists() || b.confirmed && b.generation != 0 && b.generation != pool.Generation()):
		return ErrNoPool
	case pool.Exists():
		b.queued = b.queued && b.generation == pool.Generation()
		b.generation = pool.Generation()
	}
	if err := b.shareReached(pool); err != nil {
		return err
	}
	switch _, origin := b.holders(); {
	case b.named() && !pool.Exists():
		return b.p.tombstonesReached(origin)
	case b.named() && pool.Terms() != b.terms && !b.queued:
		return ErrLimitMismatch
	}
	return nil
}
