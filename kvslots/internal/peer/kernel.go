package peer

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// patience is how long a call may take beyond its wait. After that it is answered
// ErrUnavailable.
const patience = 5 * time.Second

// kernel is what all rooms stand on: the time of the current input, the view, randomness, alarms, the
// open calls, and what Ready returns next.
type kernel struct {
	config   Config
	source   *rand.Rand
	instant  Instant // of the current input
	latest   *rules.View
	timers   alarmQueue[Instant]
	calls    calls
	stopping bool // Close was called
	counted  Counters
	ready    Ready
	spare    Ready // takes turns with ready, so that the slices stay valid that Ready returned last
}

func newKernel(cfg Config, now Instant) *kernel {
	k := &kernel{config: cfg, source: rand.New(cfg.Random), instant: now}
	k.calls.open = map[uint64]*call{}
	return k
}

func (k *kernel) settings() *Config     { return &k.config }
func (k *kernel) now() Instant          { return k.instant }
func (k *kernel) setNow(now Instant)    { k.instant = now }
func (k *kernel) view() *rules.View     { return k.latest }
func (k *kernel) setView(v *rules.View) { k.latest = v }
func (k *kernel) count() *Counters      { return &k.counted }
func (k *kernel) output() *Ready        { return &k.ready }
func (k *kernel) isStopping() bool      { return k.stopping }
func (k *kernel) stop()                 { k.stopping = true }
func (k *kernel) isLive() bool          { return k.latest.Live }

func (k *kernel) randomHash() (h entry.Hash) {
	for i := 0; i < len(h); i += 8 {
		binary.LittleEndian.PutUint64(h[i:], k.source.Uint64())
	}
	return h
}

// randomNumber returns a number that is not 0 and fits in the 53 bits of a JSON number.
func (k *kernel) randomNumber() uint64 { return k.source.Uint64()>>11 | 1 }

func (k *kernel) randomPause(most time.Duration) time.Duration {
	return time.Duration(k.source.Int64N(int64(most)))
}

func (k *kernel) log(level LogLevel, message, reason string) {
	k.ready.Logs = append(k.ready.Logs, Log{Level: level, Message: message, Reason: reason})
}

func (k *kernel) handOver() Ready {
	r := k.ready
	k.ready, k.spare = Ready{
		Writes: k.spare.Writes[:0], Answers: k.spare.Answers[:0], Logs: k.spare.Logs[:0], Events: k.spare.Events[:0],
	}, r
	return r
}
