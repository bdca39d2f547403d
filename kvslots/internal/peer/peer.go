package peer

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Config configures a Peer.
type Config struct {
	// Replicated is set if the stream has replicas: then a barrier must be a write.
	Replicated bool
	// Sole is set if no other peer can be alive: when the view is loaded, the
	// presences of earlier peers end, and with them their tickets.
	Sole bool
	// PoolIdle is the time without use after which a registered pool is unregistered; 0
	// means never.
	PoolIdle time.Duration
	// MaxPools is the cap on registered pools; 0 means any number.
	MaxPools int
	// The caps on named pools in use, waiters in each of them, client sessions, client
	// sessions of one origin, and waiters in each registered pool. 0 means any number.
	MaxLocks, MaxWaiters, MaxSessions, MaxSessionsPerOrigin, MaxPoolWaiters int
	// Random is the only source of randomness.
	Random rand.Source
}

const (
	// patience is how long a call may take beyond its wait. After that it is
	// answered ErrUnavailable.
	patience = 5 * time.Second

	// tick is the longest time between two calls of Tick while the view has a ticket that
	// may be passed over, or a claim in doubt.
	tick = 100 * time.Millisecond

	dueRetry = time.Second // until a key that is still due is purged again
	dueBatch = 256
)

// Peer is one peer: see the package comment. It is not safe for concurrent use.
type Peer struct {
	cfg    Config
	random *rand.Rand
	now    Instant // of the current input
	view   *rules.View

	out      outbox
	writes   writes
	timers   eventQueue[Instant]
	watch    watch
	reads    reads
	own      own
	self     presence
	calls    calls
	pools    pools
	sessions map[entry.Hash]*sessionState
	follows  map[entry.Hash][]*follow // by lease
	purging  map[entry.Key]uint64     // keys whose purge is under way, and the revision that it expects
	closer   closer
	opening  int     // names that are not in use in the view, and in which this peer is claiming
	closing  bool    // Close was called
	ticksAt  Instant // when Tick is next called because the view waits; 0: it does not wait
	counters Counters
	steps    [phases][phases]uint64 // of borrows, from phase to phase
}

// outbox is what Ready returns next. Two sets of slices take turns, so that the
// returned ones stay valid until the next input.
type outbox struct {
	ready Ready
	spare Ready
	watch Watch
}

// New returns a peer with an empty view. Its first Ready orders a watch.
func New(cfg Config, now Instant) *Peer {
	p := &Peer{
		cfg: cfg, random: rand.New(cfg.Random), now: now,
		pools:    pools{byID: map[entry.Hash]*poolState{}},
		sessions: map[entry.Hash]*sessionState{},
	}
	p.writes.p, p.watch.p, p.reads.p, p.self.p, p.closer.p, p.calls.p, p.pools.p = p, p, p, p, p, p, p
	p.writes.authored = map[uint64]*write{}
	p.calls.open = map[uint64]*call{}
	p.writes.pending = map[uint64]*write{}
	p.newView()
	p.watch.order(0)
	return p
}

// Do begins a request of a caller. It returns the call's id, which Answer.Call and
// GiveUp use.
func (p *Peer) Do(r Request, now Instant) uint64 {
	p.now = now
	c := p.calls.begin()
	c.bound(now.Add(patience))
	if p.closing {
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
	p.cleanUp()
	p.advance()
}

// Close ends every call with ErrClosed, and purges the peer's tickets and its
// presence. Idle reports when that is done.
func (p *Peer) Close(now Instant) {
	p.now = now
	if p.closing {
		return
	}
	for _, c := range p.calls.all() {
		c.end(ErrClosed)
	}
	p.advance()
	p.closing = true
	for _, c := range p.calls.all() {
		c.answer(Answer{Err: ErrClosed})
	}
	p.self.leave()
}

// Idle reports whether no purge is pending that the caller of Close has to wait for.
func (p *Peer) Idle() bool {
	return p.writes.releasing == 0 && !p.self.leaving
}

// Status returns nil if the peer can serve callers, and otherwise why it cannot.
func (p *Peer) Status(now Instant) error {
	switch {
	case p.closing:
		return ErrClosed
	case p.writes.refused != "":
		return errors.New(p.writes.refused)
	case p.watch.mode == loading:
		return errors.New("the view is being loaded")
	case p.watch.mode == checking:
		return errors.New("the view is being checked")
	case p.self.revision == 0:
		return errors.New("the presence cannot be written")
	case now.Sub(p.self.seen) > unseenLimit:
		return errors.New("the peer does not see its own writes")
	}
	return nil
}

// Counters returns the counts so far.
func (p *Peer) Counters() Counters { return p.counters }

// Ready returns what the caller has to do after an input. The slices are valid until
// the next input.
func (p *Peer) Ready() Ready {
	r := p.out.ready
	r.WakeAt = p.wakeAt()
	p.out.ready, p.out.spare = Ready{
		Writes: p.out.spare.Writes[:0], Answers: p.out.spare.Answers[:0], Logs: p.out.spare.Logs[:0],
	}, r
	return r
}

// wakeAt returns when Tick must be called at the latest, or 0.
func (p *Peer) wakeAt() Instant {
	const never = Instant(1<<63 - 1)
	at := never
	if p.timers.Len() > 0 {
		at = p.timers.events[0].at
	}
	if p.watch.mode == live {
		if due, ok := p.view.NextDue(); ok {
			at = min(at, due)
		}
		if !p.view.Waits() {
			p.ticksAt = 0
		} else {
			if p.ticksAt == 0 { // otherwise every input would put it off
				p.ticksAt = p.now.Add(tick)
			}
			at = min(at, p.ticksAt)
		}
	}
	if at == never {
		return 0
	}
	return max(at, p.now)
}

// advance advances every pool and read as far as the view allows.
func (p *Peer) advance() {
	for {
		p.writes.sendWaiting()
		p.own.applyReached()
		for _, pool := range p.view.Touched() {
			p.touched(pool)
		}
		if p.watch.mode == live {
			p.reads.answer()
		}
		if len(p.pools.dirty) == 0 {
			return
		}
		p.pools.advance()
	}
}

// touched is called for each pool in which anything may have changed.
func (p *Peer) touched(pool *rules.Pool) {
	p.promote(pool)
	if pool.Closing() {
		p.closer.plan()
	}
	if ps := p.pools.byID[pool.ID]; ps != nil {
		ps.mark()
		ps.noteOpening() // before another pool counts the names in use and those being opened
	}
}

func (p *Peer) randomHash() (h entry.Hash) {
	for i := 0; i < len(h); i += 8 {
		binary.LittleEndian.PutUint64(h[i:], p.random.Uint64())
	}
	return h
}

// randomNumber returns a number that is not 0 and fits in the 53 bits of a JSON number.
func (p *Peer) randomNumber() uint64 { return p.random.Uint64()>>11 | 1 }

func (p *Peer) log(level LogLevel, message, reason string) {
	p.out.ready.Logs = append(p.out.ready.Logs, Log{Level: level, Message: message, Reason: reason})
}
