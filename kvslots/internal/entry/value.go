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
	MaxName  = 512                  // bytes of a lock's or a semaphore's name
	MaxLimit = MaxPosition          // slots of a semaphore
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
	Naming
	Unseen bool `json:"unseen,omitempty"` // its session enqueued for it, and has not waited since
}

// TicketValue is the value of a place in the waiting line.
type TicketValue struct {
	Session     Hash   `json:"session"`
	Lease       Hash   `json:"lease"`
	Incarnation uint64 `json:"inc"`
	Wait        Span   `json:"wait_ms"`
	Naming
	TTL   Span `json:"ttl_ms,omitempty"` // of the lease to come, for whoever claims it for a client session
	Peer  Hash `json:"peer,omitzero"`    // the presence of the peer that is to claim for a client session
	Spent bool `json:"spent,omitempty"`  // its turn has come and gone: it stands in no line any more
	Owner Hash `json:"owner,omitzero"`   // the client session that a peer waits for
}

// Enqueued tells whether the ticket is a client session's own, which any peer
// may claim for; the others belong to a peer that waits itself.
func (v TicketValue) Enqueued() bool { return !v.Peer.IsZero() }

// Naming is what the slots and tickets of a named lock or semaphore carry. Such
// a pool has no configuration: all that is in it at a time must agree.
type Naming struct {
	Name  string `json:"name,omitempty"`
	Limit int    `json:"limit,omitempty"` // 1 … MaxLimit
	Lock  bool   `json:"lock,omitempty"`  // a lock and not a semaphore; its limit is 1
	Nonce Hash   `json:"nonce,omitzero"`  // what the token is derived from, with the session's id
}

// Terms are the limit and the kind as one number, which serves as the pool's
// incarnation; 0 where there is no name.
func (n Naming) Terms() uint64 {
	if n.Name == "" {
		return 0
	}
	terms := uint64(n.Limit) << 1
	if n.Lock {
		terms |= 1
	}
	return terms
}

// NamingOf is the naming with these terms.
func NamingOf(name string, terms uint64) Naming {
	return Naming{Name: name, Limit: int(terms >> 1), Lock: terms&1 != 0}
}

func (n Naming) valid(incarnation uint64) bool {
	if n.Name == "" {
		return n == Naming{}
	}
	return len(n.Name) <= MaxName && n.Limit >= 1 && n.Limit <= MaxLimit && (!n.Lock || n.Limit == 1) && incarnation == n.Terms()
}

// SessionValue is the value of a session: somebody who is alive as long as the
// key is refreshed.
type SessionValue struct {
	Kind   string `json:"kind"` // SessionPeer or SessionClient
	Idle   Span   `json:"idle_ms"`
	Idled  Span   `json:"idled_ms,omitempty"` // how much of that was over when this was written
	Origin Hash   `json:"origin,omitzero"`    // where a client comes from
}

// Left is how long the session lives unless it is refreshed.
func (v SessionValue) Left() time.Duration { return time.Duration(v.Idle - v.Idled) }

// The kinds of sessions: a peer's own presence, which owns tickets only, and a
// client's, which may own leases.
const (
	SessionPeer   = "peer"
	SessionClient = "client"
)

// BarrierValue is the value of a barrier. Barriers carry no expected revision,
// so the value names the one before.
type BarrierValue struct {
	Previous uint64 `json:"prev,omitempty"`
}

// Span is a duration, written as whole milliseconds.
type Span time.Duration

// Duration is the span as a time.Duration.
func (s Span) Duration() time.Duration { return time.Duration(s) }

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
	return !v.Lease.IsZero() && v.TTL > 0 && v.Incarnation != 0 && len(v.Label) <= MaxLabel &&
		v.Naming.valid(v.Incarnation)
}

func validTicket(v TicketValue) bool {
	return !v.Session.IsZero() && !v.Lease.IsZero() && v.Wait > 0 && v.Incarnation != 0 &&
		v.Naming.valid(v.Incarnation) && (!v.Enqueued() || v.Name != "" && v.TTL > 0)
}

func validSession(v SessionValue) bool {
	return (v.Kind == SessionPeer || v.Kind == SessionClient) && v.Idle > 0 && v.Idled < v.Idle
}
