package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	Count      int    `json:"count"`             // slots in force; 0 for a named pool that is being closed
	Generation uint64 `json:"gen"`               // random; of one registration
	Deleted    bool   `json:"deleted,omitempty"` // the pool was deleted; the entry keeps earlier ones from coming back
	Terms

	// Before are the last generations before this one, for peers that skip entries.
	Before []Ended `json:"before,omitempty"`
}

// Ended is a generation of a pool that was.
type Ended struct {
	Generation uint64 `json:"gen"`
	Until      uint64 `json:"until,omitempty"` // the revision that ended it; 0: that of the entry itself
}

// Terms are what a named pool was opened with: the zero Terms for another.
type Terms struct {
	Name    string `json:"name,omitempty"`    // of the lock or semaphore, 1 … MaxName bytes
	Dialect string `json:"dialect,omitempty"` // the namespace of the name
	Lock    bool   `json:"lock,omitempty"`    // a lock and not a semaphore; its limit is 1
	Limit   int    `json:"limit,omitempty"`   // 1 … MaxLimit
}

// Named reports whether these are the terms of a named pool.
func (t Terms) Named() bool { return t.Name != "" }

func (t Terms) valid() bool {
	if t.Name == "" {
		return t == Terms{}
	}
	return len(t.Name) <= MaxName && len(t.Dialect) <= MaxName && t.Limit >= 1 && t.Limit <= MaxLimit && (!t.Lock || t.Limit == 1)
}

// SlotValue is the value of a slot that is taken.
type SlotValue struct {
	Lease      Hash   `json:"lease"`
	Session    Hash   `json:"session,omitzero"` // the client session that holds the lease
	Claimer    Hash   `json:"claimer"`          // the presence of the peer that wrote the claim
	Ticket     uint64 `json:"ticket,omitempty"` // the place of the ticket that is served by this
	Generation uint64 `json:"gen"`
	TTL        Span   `json:"ttl_ms"`
	Fence      uint64 `json:"fence,omitempty"` // 0 in a lease's first write, whose revision is the fence
	Label      string `json:"label,omitempty"`
	Owner      string `json:"owner,omitempty"`  // of a lock that no session holds
	Nonce      Hash   `json:"nonce,omitzero"`   // what the token is derived from, with the session's id
	Unseen     bool   `json:"unseen,omitempty"` // its session enqueued for it, and has not waited since
}

// TicketValue is the value of a place in the waiting line. Its author, whose end
// is the ticket's end, is in the key: a peer's presence, or a client session.
type TicketValue struct {
	Lease      Hash   `json:"lease"`
	Generation uint64 `json:"gen"`
	Wait       Span   `json:"wait_ms"`
	Place      uint64 `json:"place,omitempty"`  // the revision of the ticket's first write; 0 in that write
	Peer       Hash   `json:"peer,omitzero"`    // of a client session's ticket: the presence of the peer that claims for it
	TTL        Span   `json:"ttl_ms,omitempty"` // of an enqueued ticket: of the lease to come
	Nonce      Hash   `json:"nonce,omitzero"`   // of an enqueued ticket: of the lease to come
	Spent      bool   `json:"spent,omitempty"`  // of an enqueued ticket: its lease came and went; it stands in no line any more
}

// read is what Parse makes of the value, as NewMessage has written it; nil: nothing.
func (v TicketValue) read() *TicketValue {
	if !v.Wait.inRange() || v.TTL != 0 && !v.TTL.inRange() || !validTicket(v) {
		return nil
	}
	v.Wait, v.TTL = v.Wait.written(), v.TTL.written()
	return &v
}

// Enqueued reports whether the ticket is one that any peer may claim for.
func (v TicketValue) Enqueued() bool { return v.TTL > 0 }

// SessionValue is the value of a session, which is alive as long as its key is
// refreshed.
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

// written is the span as it is written.
func (s Span) written() Span { return s - s%Span(time.Millisecond) }

// inRange reports whether UnmarshalJSON reads what MarshalJSON writes.
func (s Span) inRange() bool { return s >= Span(time.Millisecond) && s <= Span(MaxSpan) }

// MarshalJSON writes the milliseconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(s).Milliseconds(), 10), nil
}

// UnmarshalJSON reads milliseconds from 1 to MaxSpan.
func (s *Span) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
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

// decode reads a value and checks what its type alone cannot say. With an error it
// returns the zero value.
func decode[V any](data []byte, valid func(V) bool) (v V, err error) {
	var none V
	if err := json.Unmarshal(data, &v); err != nil {
		return none, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if !valid(v) {
		return none, errCorrupt
	}
	return v, nil
}

func validConfig(v ConfigValue) bool {
	most := MaxCount
	if v.Named() {
		most = v.Limit
	}
	return v.Count >= 0 && v.Count <= most && v.Generation != 0 && v.Terms.valid()
}

func validSlot(v SlotValue) bool {
	return !v.Lease.IsZero() && v.TTL > 0 && v.Generation != 0 && len(v.Label) <= MaxLabel && len(v.Owner) <= MaxLabel
}

func validTicket(v TicketValue) bool {
	return !v.Lease.IsZero() && v.Wait > 0 && v.Generation != 0
}

func validSession(v SessionValue) bool {
	return (v.Kind == SessionPeer || v.Kind == SessionClient) && v.Idle > 0 && v.Idled < v.Idle
}
