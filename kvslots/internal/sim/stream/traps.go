package stream

import "time"

// Traps switches what a real server does against expectation. The zero value is
// a server that is always in time and never surprises; Measured has what was
// measured.
type Traps struct {
	// ExpiryLate is by how much an expiry, and the end of a marker, may be late.
	// The server looks for expired messages every 250 ms at most.
	ExpiryLate time.Duration

	// DeathExpiryMin and DeathExpiryMax are for how long nothing expires after
	// the leader of a replicated stream has died.
	DeathExpiryMin, DeathExpiryMax time.Duration

	// RollupWindow is how long the server's own marker may be under way between
	// the decision that a message has expired and its place in the stream. The
	// marker expects nothing: a write that gets in between is acknowledged, and
	// then erased by the marker.
	RollupWindow time.Duration

	// InFlightWindow is how long after a write to a key of a replicated stream
	// another one that expects a revision may be refused with CodeInFlight.
	InFlightWindow time.Duration

	// InFlightRate is how often, from 0 to 1, such a write is refused so though
	// the simulator knows of no other: what was in flight came to nothing.
	InFlightRate float64

	// SilentGap is how often, from 0 to 1, a write is not even refused while the
	// stream has no leader.
	SilentGap float64

	// ReviveAfterKill lets an unclean stop of an unreplicated stream bring back
	// what was superseded by a marker that is gone meanwhile: a superseded
	// record stays in its block file without a tombstone (nats-server issue
	// 8505).
	ReviveAfterKill bool

	// TTLWholeSeconds cuts a TTL down to whole seconds and refuses one below 1 s.
	TTLWholeSeconds bool

	// MarkersExpire lets a marker go when its TTL is over, silently: nothing is
	// written, and the key's revision becomes 0. Without it markers stay.
	MarkersExpire bool

	// StaleGets lets direct gets be answered by a replica that is behind.
	StaleGets bool
}

// Plain is a server in no hurry and without faults: what it always does, and
// nothing of what it does only when timing is unlucky.
func Plain() Traps { return Traps{TTLWholeSeconds: true, MarkersExpire: true} }

// Measured is what was seen of nats-server 2.15.2. The windows in which writes
// meet each other, and the rates, are chosen, since they depend on the load.
func Measured() Traps {
	t := Plain()
	t.ExpiryLate = 250 * time.Millisecond
	t.DeathExpiryMin, t.DeathExpiryMax = 4*time.Second, 8*time.Second
	t.RollupWindow = 2 * time.Millisecond
	t.InFlightWindow, t.InFlightRate = time.Millisecond, 0.01
	t.SilentGap = 0.5
	t.ReviveAfterKill = true
	t.StaleGets = true
	return t
}

// Trap is something that has happened to a stream and that Met counts.
type Trap uint8

// The traps, and the faults that show.
const (
	LateExpiry        Trap = iota // an expiry came late
	LateAfterDeath                // an expiry waited because a leader had died
	EarlyExpiry                   // a leader's clock was ahead: an expiry came early
	ErasedAfterAck                // the server's marker erased an acknowledged write
	TTLCut                        // a TTL was cut down to whole seconds
	MarkerExpired                 // a marker went silently
	InFlight                      // a write was refused because another one was in flight
	Unled                         // a write met a stream without a leader
	Unanswered                    // and was not even refused
	Revived                       // a superseded message is current again after an unclean stop
	TailLost                      // an acknowledged write was lost
	SupersededLost                // a key lost the superseded message together with its successor
	SequenceReused                // a sequence number was given out again after a lost tail
	SkippedDelivery               // a consumer passed over what was overwritten before its delivery
	ConsumerLost                  // a consumer ended without a word
	StaleGet                      // a direct get was answered from the past
	StreamPurged                  // the stream was purged
	StreamReplaced                // the stream was deleted and created anew
	FirstSequenceBack             // and its sequence numbers went back
	traps
)

var trapNames = [traps]string{
	"late expiry", "late expiry after a leader's death", "early expiry", "erased after ack", "TTL cut", "marker expired",
	"in flight", "no leader", "no leader, no answer", "revived", "tail lost", "superseded lost", "sequence reused",
	"skipped delivery", "consumer lost", "stale get", "stream purged", "stream replaced", "first sequence back",
}

// String is the trap's name for reports.
func (t Trap) String() string { return trapNames[t] }

// AllTraps lists the traps.
func AllTraps() []Trap {
	all := make([]Trap, traps)
	for i := range all {
		all[i] = Trap(i)
	}
	return all
}

// Met returns how often a trap has happened.
func (s *Stream) Met(t Trap) int { return s.met[t] }

// SetTraps changes the traps from now on: a simulation may have quiet times.
func (s *Stream) SetTraps(change func(*Traps)) { change(&s.opts.Traps) }
