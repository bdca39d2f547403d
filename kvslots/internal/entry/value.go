package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Limits of what a value may carry. A value outside them is corrupt.
const (
	MaxCount = 1000                 // slots of a registered pool
	MaxSpan  = 366 * 24 * time.Hour // a lease's ttl, a session's idle time
	MaxLabel = 256                  // bytes of a label
)

// ConfigValue is the value of a pool's configuration.
type ConfigValue struct {
	Count       int    `json:"count"`
	Incarnation uint64 `json:"inc"` // random, new at each registration after a delete
	Deleted     bool   `json:"deleted,omitempty"`
}

// SlotValue is the value of a slot that is taken.
type SlotValue struct {
	Lease       Hash   `json:"lease"`
	Session     Hash   `json:"session,omitzero"` // a client session that owns the lease
	Claimer     Hash   `json:"claimer"`          // the presence of the peer that wrote the claim
	Ticket      uint64 `json:"ticket,omitempty"` // revision of the ticket that is served by this
	Incarnation uint64 `json:"inc"`
	TTL         Span   `json:"ttl_ms"`
	Fence       uint64 `json:"fence,omitempty"` // 0 in a lease's first write, whose revision is the fence
	Label       string `json:"label,omitempty"`
}

// TicketValue is the value of a place in the waiting line.
type TicketValue struct {
	Session     Hash   `json:"session"`
	Lease       Hash   `json:"lease"`
	Incarnation uint64 `json:"inc"`
	Wait        Span   `json:"wait_ms"`
}

// SessionValue is the value of a session: somebody who is alive as long as the
// key is refreshed.
type SessionValue struct {
	Kind string `json:"kind"` // SessionPeer
	Idle Span   `json:"idle_ms"`
}

// SessionPeer is the kind of a peer's own presence.
const SessionPeer = "peer"

// BarrierValue is the value of a barrier. Barriers carry no expected revision,
// so the value names the one before.
type BarrierValue struct {
	Previous uint64 `json:"prev,omitempty"`
}

// Span is a duration, written as whole milliseconds.
type Span time.Duration

// MarshalJSON writes the milliseconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Milliseconds())
}

// UnmarshalJSON reads milliseconds from 1 to MaxSpan.
func (s *Span) UnmarshalJSON(text []byte) error {
	var ms int64
	if err := json.Unmarshal(text, &ms); err != nil {
		return err
	}
	if ms < 1 || ms > MaxSpan.Milliseconds() {
		return errors.New("a span must be between 1 ms and a year")
	}
	*s = Span(time.Duration(ms) * time.Millisecond)
	return nil
}

var (
	errCorrupt = errors.New("corrupt value")
	errForeign = errors.New("foreign key")
)

// decode reads a value and checks what its type alone cannot say.
func decode[V any](data []byte, valid func(V) bool) (V, error) {
	var v V
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if !valid(v) {
		return v, errCorrupt
	}
	return v, nil
}

func validConfig(v ConfigValue) bool {
	return v.Count >= 0 && v.Count <= MaxCount && v.Incarnation != 0
}

func validSlot(v SlotValue) bool {
	return !v.Lease.IsZero() && v.TTL > 0 && v.Incarnation != 0 && len(v.Label) <= MaxLabel
}

func validTicket(v TicketValue) bool {
	return !v.Session.IsZero() && !v.Lease.IsZero() && v.Wait > 0 && v.Incarnation != 0
}

func validSession(v SessionValue) bool { return v.Kind == SessionPeer && v.Idle > 0 }
