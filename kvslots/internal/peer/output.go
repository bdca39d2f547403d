package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

type Instant = rules.Instant

// Ready is what the caller of the peer has to do. The slices are valid until the
// peer's next input.
type Ready struct {
	Writes  []Write  // to be sent in this order, and after those of earlier Readys
	Answers []Answer // for callers
	Reading *Reading // replaces the present reading; may be nil
	Joined  uint64   // the number of the reading that is over, or 0: see Read
	Logs    []Log
	Events  []Event // for readers
	WakeAt  Instant // when to call Tick at the latest; 0: never
}

// Write is a message to be published. Call Acked with its answer, however late. The
// peer may send the same message again under another ID.
type Write struct {
	ID uint64
	entry.Message
}

// Reading asks the caller for a reading, which delivers the entries that the bucket has, in
// the order of the stream, until Ready.Joined names it.
type Reading struct {
	Number uint64 // the argument of Read and the other inputs of the reading, which ignore older numbers
	From   uint64 // the first sequence to deliver; 0: the whole stream
}

type Answer struct {
	Call    uint64
	Err     error
	Grant   Grant
	Queued  bool     // Enqueue: the session has a ticket in the line
	Refusal *Refusal // with ErrNoSlot and ErrLimitMismatch of what asks for a slot
	Stats   *reads.Stats
	Detail  *reads.Detail
	created entry.Hash // CreateSession: the session, of which only the caller will know
}

// Refusal says why a borrow was granted nothing.
type Refusal struct {
	Place  int           // in line, that it had, or would have got, from 1; 0: not known
	Label  string        // of the lease at the lowest position; "": it has none, or there is no lease
	Age    time.Duration // of that lease
	Terms  entry.Terms   // of a named pool
	Paused bool          // the whole pool is out of service
	Reason string        // with Paused: why
}

type Grant struct {
	Position int
	Fence    uint64
	TTL      time.Duration // how long the lease lives from At on
	At       Instant
	Lease    entry.Hash
	Nonce    entry.Hash // of a lease of a named pool, or with a request key
	Queued   bool       // the borrow has waited in the line
	Resumed  bool       // the lease was granted before, for the same request key
	Sharers  Sharers    // for Abandon
	Claim    int        // the number of the claim that was granted: see Borrow.LeaseOf
	basis    grantBasis
}

// Sharers are the callers that one answer with a lease is for.
type Sharers struct {
	answer uint64 // see entry.SlotValue.Answers
	left   *int   // how many of them were told, or may be; nil: one
}

// share says how many callers have the answer.
func (g *Grant) share(callers int) { g.Resumed, g.Sharers.left = true, &callers }

// lose records that a caller is not told of the lease. It reports whether none was, or will be.
func (s *Sharers) lose() bool {
	if s.left == nil {
		return true
	}
	*s.left--
	return *s.left == 0
}

// grantBasis is the write that a Grant depends on.
type grantBasis struct {
	key      entry.Key
	revision uint64
	lease    entry.Hash
	ttl      time.Duration // as requested
	sent     Instant       // when the write was sent; it was written later
	resumed  bool          // the lease was granted before, and may be promised for longer
}

// Log is a message for the operator. It contains no secret.
type Log struct {
	Level   LogLevel
	Message string
	Reason  string
}

type LogLevel int8

const (
	Debug LogLevel = iota
	Warn
)

type Outcome int8

// The outcomes. With a refusal, it is certain that the message was not written.
const (
	Written  Outcome = iota // at Ack.Revision
	Conflict                // refused: the key's last revision (for a barrier: the stream's last sequence) is Ack.Revision
	InFlight                // refused: some write to the key is in flight (10164)
	NotNow                  // certainly not written: no leader, the queue is full, too many requests
	Never                   // refused with another code: only purges that no caller waits for are sent again
	Unknown                 // the connection is gone: written, not written, or still to be
)

type Ack struct {
	Outcome  Outcome
	Revision uint64
	Reason   string // of NotNow and Never, for the operator
}

// StreamInfo is the state of the stream when a reading begins.
type StreamInfo struct {
	Created time.Time
	Now     time.Time // by the stream leader's clock
	Last    uint64    // its last sequence

	Replicas int
}

// Event is a change that the view shows, for readers of events. It contains no secret.
type Event struct {
	Kind     EventKind
	Revision uint64        // of the entry that made the change; several events may have it
	Time     time.Time     // of that entry, by the stream leader's clock
	Pool     entry.Hash    // zero for those of peers, and for SessionOver without a slot
	Title    string        // of a registered pool
	Terms    entry.Terms   // of a named pool
	Position int           // of Granted and of the ends of a lease
	Fence    uint64        // of the same
	Label    string        // of the holder, the waiter or the session
	By       string        // LeaseEvicted, Changed: the name of the operator
	Took     time.Duration // Granted, Left: how long it has waited; an end of a lease: how long it was held
}

type EventKind uint8

const (
	StartsOver   EventKind = iota // changes may be missing: read the state anew
	Granted                       // a slot was lent
	Returned                      // a lease was ended by its holder
	LeaseOver                     // a lease has expired
	LeaseEvicted                  // a lease was ended by an operator
	Withdrawn                     // a slot was given back before its borrower was told of it
	Joined                        // a borrow has joined the line
	Left                          // a borrow has left the line without a slot
	Registered                    // a pool was registered
	Changed                       // its count, its title or what is out of service has changed
	Deleted                       // a pool has ended, and its leases with it
	SessionOver                   // a client session has ended; one event for each lease that ended with it
	PeerCame
	PeerWent
)
