package peer

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// patience is how long a call may take beyond its wait. After that it is answered
	// ErrUnavailable.
	patience = 5 * time.Second

	// tick is the longest time between two calls of Tick while the view has a ticket that
	// may be passed over, or a claim in doubt.
	tick = 100 * time.Millisecond
)

// kernel keeps the view up to date, and writes messages. It knows nothing of what the rooms
// above it do with them: those hold a *kernel, and it calls them by its worker only.
type kernel struct {
	cfg    Config
	random *rand.Rand
	now    Instant // of the current input
	view   *rules.View
	above  worker

	out      outbox
	writes   writes
	timers   alarmQueue[Instant]
	feed     feed
	reads    reads
	self     presence
	calls    calls
	stopping bool                    // Close was called
	untold   map[entry.Hash]struct{} // leases of this peer's claims with request keys whose callers were not told, until their purges
	watched  bool                    // see Watch
	scene    scene                   // before the entry that is being applied
	ticksAt  Instant                 // when Tick is next called because the view waits; 0: it does not wait
	counters Counters
}

// worker is what the kernel needs of the rooms above it.
type worker interface {
	// The view.
	restart()                                        // a new view begins, which is empty
	applied(e *entry.Entry, before holder, own bool) // an entry was applied; own: it is one of this peer's pending writes
	becameLive()                                     // the view is live: it was loaded, or is caught up
	touched(pool *rules.Pool)                        // anything may have changed in a pool
	advance() (more bool)                            // the view was advanced; more: what the rooms did may have touched other pools
	presenceLost()                                   // the presence is gone, and with it the tickets of this peer

	// Calls.
	park(c *call, a Answer) bool // whether the answer to a session's call is kept until the session is promised to live
	delivered(c *call)           // a session's call was answered
}

// holder is a lease and the session that holds it.
type holder struct {
	lease, session entry.Hash
	live           bool
}

// outbox is what Ready returns next. Two sets of slices take turns, so that the
// returned ones stay valid until the next input.
type outbox struct {
	ready Ready
	spare Ready
}

func newKernel(cfg Config, now Instant, above worker) *kernel {
	k := &kernel{cfg: cfg, random: rand.New(cfg.Random), now: now, above: above}
	k.writes.k, k.feed.k, k.reads.k, k.self.k, k.calls.k = k, k, k, k, k
	k.writes.byKey = map[entry.Key]*write{}
	k.writes.pending = map[uint64]*write{}
	k.calls.open = map[uint64]*call{}
	return k
}

// Counters returns the counts so far.
func (k *kernel) Counters() Counters { return k.counters }

// Ready returns what the caller has to do after an input. The slices are valid until
// the next input.
func (k *kernel) Ready() Ready {
	r := k.out.ready
	r.WakeAt = k.wakeAt()
	k.out.ready, k.out.spare = Ready{
		Writes: k.out.spare.Writes[:0], Answers: k.out.spare.Answers[:0], Logs: k.out.spare.Logs[:0],
		Events: k.out.spare.Events[:0],
	}, r
	return r
}

// wakeAt returns when Tick must be called at the latest, or 0.
func (k *kernel) wakeAt() Instant {
	const never = Instant(1<<63 - 1)
	at := never
	if k.timers.Len() > 0 {
		at = k.timers.alarms[0].at
	}
	if k.feed.mode == live {
		if due, ok := k.view.NextDue(); ok {
			at = min(at, due)
		}
		if !k.view.Waits() {
			k.ticksAt = 0
		} else {
			if k.ticksAt == 0 { // otherwise every input would put it off
				k.ticksAt = k.now.Add(tick)
			}
			at = min(at, k.ticksAt)
		}
	}
	if at == never {
		return 0
	}
	return max(at, k.now)
}

// advance advances every pool and read as far as the view allows.
func (k *kernel) advance() {
	for more := true; more; more = k.above.advance() {
		k.writes.sendWaiting()
		for _, pool := range k.view.Touched() {
			k.above.touched(pool)
		}
		if k.feed.mode == live {
			k.reads.answer()
		}
	}
}

func (k *kernel) randomHash() (h entry.Hash) {
	for i := 0; i < len(h); i += 8 {
		binary.LittleEndian.PutUint64(h[i:], k.random.Uint64())
	}
	return h
}

// randomNumber returns a number that is not 0 and fits in the 53 bits of a JSON number.
func (k *kernel) randomNumber() uint64 { return k.random.Uint64()>>11 | 1 }

func (k *kernel) log(level LogLevel, message, reason string) {
	k.out.ready.Logs = append(k.out.ready.Logs, Log{Level: level, Message: message, Reason: reason})
}
