package stream

import "time"

// Traps switches the unexpected behavior of real servers. The zero value is a server
// that is always on time.
type Traps struct {
	// ExpiryLate is the maximal delay of an expiry. A server looks for expired messages
	// at least every 250 ms.
	ExpiryLate time.Duration

	// DeathExpiryMin and DeathExpiryMax bound the time without expiries after the
	// leader of a replicated stream has died.
	DeathExpiryMin, DeathExpiryMax time.Duration

	// RollupWindow is the maximal time from the expiry of a message to the arrival of
	// its marker in the stream. The marker has no expected revision: it erases a write
	// that was acknowledged in between.
	RollupWindow time.Duration

	// InFlightWindow is how long after a write to a key of a replicated stream another
	// write that expects a revision is refused with CodeInFlight.
	InFlightWindow time.Duration

	// InFlightRate is the probability that a write is refused with CodeInFlight because
	// of a write that the simulator does not know.
	InFlightRate float64

	// SilentGap is the probability that a write is not answered at all while the stream
	// has no leader.
	SilentGap float64

	// ReviveAfterKill lets the kill of an unreplicated server bring back a message
	// whose superseding marker has expired: superseded records have no tombstone in the
	// block file (nats-server issue 8505).
	ReviveAfterKill bool

	// TTLWholeSeconds reduces a TTL to whole seconds, and refuses one below 1 s.
	TTLWholeSeconds bool

	// MarkersExpire lets markers expire. The server writes nothing then, and the key's
	// revision becomes 0.
	MarkersExpire bool
}

// Plain has the traps that do not depend on timing.
func Plain() Traps { return Traps{TTLWholeSeconds: true, MarkersExpire: true} }

// Measured has the traps of nats-server 2.15.2 as measured, except the windows in which
// writes meet and the rates, which depend on the load and were chosen.
func Measured() Traps {
	t := Plain()
	t.ExpiryLate = 250 * time.Millisecond
	t.DeathExpiryMin, t.DeathExpiryMax = 4*time.Second, 8*time.Second
	t.RollupWindow = 2 * time.Millisecond
	t.InFlightWindow, t.InFlightRate = time.Millisecond, 0.01
	t.SilentGap = 0.5
	t.ReviveAfterKill = true
	return t
}

// Trap is an event that Met counts.
type Trap uint8

const (
	LateExpiry        Trap = iota // a message expired late
	LateAfterDeath                // an expiry was delayed by the death of a leader
	EarlyExpiry                   // a message expired early, because the leader's clock was ahead
	ErasedAfterAck                // the server's marker erased an acknowledged write
	TTLCut                        // a TTL was reduced to whole seconds
	MarkerExpired                 // a marker expired
	InFlight                      // a write was refused because of another one in flight
	NoLeader                      // a write was not accepted, because the stream had no leader
	Unanswered                    // such a write was not even answered
	Revived                       // a superseded message became current again after a kill
	TailLost                      // an acknowledged write was lost
	SupersededLost                // a key lost a superseded message together with its successor
	SequenceReused                // a sequence was used again after a lost tail
	SkippedDelivery               // a consumer skipped a message that was overwritten before its delivery
	ConsumerLost                  // a consumer was lost without notice
	LateReplica                   // a consumer was on a replica that was behind
	StreamPurged                  // the stream was purged
	StreamReplaced                // the stream was deleted and created again
	FirstSequenceBack             // the sequences of a created stream began below those of the deleted one
	traps
)

var trapNames = [traps]string{
	"late expiry", "late expiry after a leader's death", "early expiry", "erased after ack", "TTL cut", "marker expired",
	"in flight", "no leader", "no leader, no answer", "revived", "tail lost", "superseded lost", "sequence reused",
	"skipped delivery", "consumer lost", "late replica", "stream purged", "stream replaced", "first sequence back",
}

func (t Trap) String() string { return trapNames[t] }

func AllTraps() []Trap {
	all := make([]Trap, traps)
	for i := range all {
		all[i] = Trap(i)
	}
	return all
}

func (s *Stream) Met(t Trap) int { return s.met[t] }
