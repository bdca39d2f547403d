package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Instant is a reading of this machine's monotonic clock.
type Instant = rules.Instant

// Ready is what the peer wants done. The slices are good until the peer's next
// input.
type Ready struct {
	Writes  []Write  // to be sent in this order, and after those of earlier Readys
	Answers []Answer // for callers
	Watch   *Watch   // replaces the watch that there is
	Logs    []Log
	WakeAt  Instant // when Tick is wanted at the latest; 0: not at all
}

// Write is a message to be published. Its outcome is told by Acked, whenever it
// comes; the peer may send the same message again under another ID.
type Write struct {
	ID uint64
	entry.Message
}

// Watch asks for the bucket's entries, in the order of the stream.
type Watch struct {
	Number uint64 // Apply and the other inputs name it; what older ones deliver is dropped
	From   uint64 // the first sequence wanted; 0: everything that there is
}

// Answer ends a call.
type Answer struct {
	Call     uint64
	Err      error
	Grant    Grant
	Queued   bool // Enqueue: the session stands in line
	Returned bool
	State    State
	Owned    OwnedState
	Stats    *Stats
}

// Grant is a lease that was granted or renewed.
type Grant struct {
	Position int
	Fence    uint64
	TTL      time.Duration // what is promised, from At on
	At       Instant
	Nonce    entry.Hash // of a named one
	Queued   bool       // a borrow or an acquire has stood in line for it
	rests    granted
}

// State is a pool at one instant.
type State struct{ Count, InUse, Waiting int }

// OwnedState is a lock that no session holds, at one instant.
type OwnedState struct {
	Owner  string
	Fence  uint64
	Age    time.Duration // since it was granted
	EndsIn time.Duration // at least 0
}

// Log is something that an operator should know. It carries no secret.
type Log struct {
	Level   LogLevel
	Message string
	Reason  string
	Key     entry.Hash // of the key that it is about, if any
}

// LogLevel is how important a Log is.
type LogLevel int8

// The levels.
const (
	Debug LogLevel = iota
	Warn
)

// Outcome is what is known of a write.
type Outcome int8

// The outcomes. A refusal says certainly that the message was not written.
const (
	Written  Outcome = iota // at Ack.Revision
	Conflict                // refused: the key (or for a barrier the stream) stands at Ack.Revision
	InFlight                // refused: some write to the key is in flight (10164)
	NotNow                  // surely not written: no leader, the queue is full, too many requests
	Never                   // refused with another code: to try again is of no use
	Unknown                 // the connection is gone: written, not written, or still to be
)

// Ack is the answer to a write.
type Ack struct {
	Outcome  Outcome
	Revision uint64
	Reason   string // of Never, for the log
}

// StreamInfo is what the server says of the stream when a watch begins.
type StreamInfo struct {
	Created time.Time
	Now     time.Time // by the stream leader's clock
	Last    uint64    // its last sequence
}

// Counters count what tests and metrics want to know. They only grow.
type Counters struct {
	Claims, Voids, Conflicts, Barriers, Skips, Rebuilds, Checks, Writes, Grants, Resent, Early uint64
}
