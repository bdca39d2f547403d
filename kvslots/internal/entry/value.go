package entry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The limits of values. A value outside them is corrupt.
const (
	MaxCount = 1000                 // slots of a registered pool
	MaxSpan  = 366 * 24 * time.Hour // a lease's ttl, a wait, a session's idle time
	MaxLabel = 256                  // bytes of a label, of a pool's title, and of a reason
	MaxName  = 512                  // bytes of a lock's or a semaphore's name
	MaxLimit = MaxPosition          // slots of a semaphore
	MaxFence = 1 << 53              // above all fences and revisions, which are JSON numbers
)

// ConfigValue is the value of a pool's configuration.
type ConfigValue struct {
	Count      int    `json:"count"`               // number of slots
	Generation uint64 `json:"gen"`                 // random, drawn when the pool is registered or opened
	Closing    bool   `json:"closing,omitempty"`   // no slot may be taken: a peer is about to remove the idle pool
	Origin     Hash   `json:"origin,omitzero"`     // of the client that registered or opened the pool
	Requests   []Hash `json:"requests,omitempty"`  // of the last registrations with a request key, in pairs: the key, and a hash of what it asked for
	Title      string `json:"title,omitempty"`     // what people call a registered pool; no secret, and not unique
	Out        []Out  `json:"out,omitempty"`       // what an operator has taken out of service, by position
	OutOrigin  Hash   `json:"out_origin,omitzero"` // with Out: of the client that was the last to take something out
	By         string `json:"by,omitempty"`        // the name of the operator who asked for this write
	Terms
}

// Out says that a slot, or a whole pool, is out of service: it cannot be taken. A lease that it
// has goes on.
type Out struct {
	Position int    `json:"n"` // WholePool, or that of a slot
	Reason   string `json:"reason,omitempty"`
}

// WholePool is the position that stands for all slots of a pool.
const WholePool = -1

// OutAt returns what is out of service at a position, if anything is.
func (v *ConfigValue) OutAt(position int) (out Out, is bool) {
	if i, found := v.searchOut(position); found {
		return v.Out[i], true
	}
	return Out{}, false
}

func (v *ConfigValue) searchOut(position int) (i int, found bool) {
	return slices.BinarySearchFunc(v.Out, position, func(o Out, position int) int { return cmp.Compare(o.Position, position) })
}

// Paused reports whether the whole pool is out of service.
func (v *ConfigValue) Paused() bool { return len(v.Out) > 0 && v.Out[0].Position == WholePool }

// WithOut returns the configuration with o out of service, for a client of origin.
func (v ConfigValue) WithOut(o Out, origin Hash) ConfigValue {
	v = v.WithIn(o.Position)
	i, _ := v.searchOut(o.Position)
	v.Out, v.OutOrigin = slices.Insert(v.Out, i, o), origin
	return v
}

// MaxOut bounds OutSize, so that a configuration, and an answer with all that is out of service,
// stay below what a message may have.
const MaxOut = 48 << 10

// OutSize returns how many bytes the list of what is out of service takes at most in an answer,
// whose fields have longer names.
func (v *ConfigValue) OutSize() int {
	text, _ := encode(v.Out) // does not fail for texts and numbers
	return len(text) + 16*len(v.Out)
}

func (v ConfigValue) WithIn(position int) ConfigValue {
	i, found := v.searchOut(position)
	if v.Out = slices.Clone(v.Out); found {
		v.Out = slices.Delete(v.Out, i, i+1)
	}
	if len(v.Out) == 0 {
		v.OutOrigin = Hash{}
	}
	return v
}

// WithLimit returns the configuration of a semaphore with another limit, open. Positions that it no longer has
// stay out of service, as those of a pool, as far as check allows that.
func (v ConfigValue) WithLimit(limit int) ConfigValue {
	v.Count, v.Limit, v.Closing = limit, limit, false
	v.Out = slices.DeleteFunc(slices.Clone(v.Out), func(o Out) bool { return o.Position >= max(limit, MaxCount) })
	return v
}

// Terms are the name, kind and limit of a named pool. A registered pool has the
// zero Terms.
type Terms struct {
	Name    string `json:"name,omitempty"`    // of the lock or semaphore, 1 … MaxName bytes
	Dialect string `json:"dialect,omitempty"` // the namespace of the name
	Lock    bool   `json:"lock,omitempty"`    // true for a lock, whose limit is 1; false for a semaphore
	Limit   int    `json:"limit,omitempty"`   // 1 … MaxLimit
}

// IsSemaphore reports whether the terms are a semaphore's.
func (t Terms) IsSemaphore() bool { return t.Named() && !t.Lock }

func (t Terms) Named() bool { return t.Name != "" }

// Pool returns the id of the named pool with these terms. It depends on the dialect and the
// name, so a lock and a semaphore of one name share it.
func (t Terms) Pool() Hash { return HashOf(cmp.Or(t.Dialect, OfName), t.Name) }

func (t Terms) check() error {
	switch {
	case t.Name == "" && t != Terms{}:
		return errors.New("dialect, lock and limit must be absent without a name")
	case t.Name == "":
		return nil
	case len(t.Name) > MaxName || len(t.Dialect) > MaxName:
		return fmt.Errorf("name and dialect must have at most %d bytes", MaxName)
	case t.Limit < 1 || t.Limit > MaxLimit:
		return fmt.Errorf("limit must be between 1 and %d", MaxLimit)
	case t.Lock && t.Limit != 1:
		return errors.New("limit must be 1 for a lock")
	}
	return nil
}

// SlotValue is the value of a taken slot.
type SlotValue struct {
	Lease      Hash   `json:"lease"`
	Session    Hash   `json:"session,omitzero"` // the client session that holds the lease
	Claimer    Hash   `json:"claimer"`          // the presence of the peer that wrote the claim
	Ticket     uint64 `json:"ticket,omitempty"` // the place of the ticket that the claim serves
	Generation uint64 `json:"gen"`
	TTL        Span   `json:"ttl_ms"`
	Fence      uint64 `json:"fence,omitempty"` // 0 in a lease's first write, the claim: see Entry.Fence
	After      uint64 `json:"after,omitempty"` // of a claim: the highest fence that its peer knew, at least 1
	Label      string `json:"label,omitempty"`
	Owner      string `json:"owner,omitempty"`    // of a lock that no session holds
	Nonce      Hash   `json:"nonce,omitzero"`     // the token is derived from it and the session's id
	Unseen     bool   `json:"unseen,omitempty"`   // claimed for an Enqueue whose session has not called Wait since
	Origin     Hash   `json:"origin,omitzero"`    // of a lock that no session holds: the client's origin, for the cap per origin
	Request    Hash   `json:"request,omitzero"`   // the request key for which the lease was granted; zero: none
	Asked      Span   `json:"asked_ms,omitempty"` // with Request: the ttl of the claim, which TTL no longer is after a renewal
	Known      bool   `json:"known,omitempty"`    // a caller certainly knows of the lease

	// Answers are those that may have told a caller of the lease, unless one certainly knows of it: each by
	// the author of the write on which it depends. A claim does not name its own.
	Answers []uint64 `json:"answers,omitempty"`
}

// maxAnswers bounds SlotValue.Answers. When more may have told a caller, one counts as told.
const maxAnswers = 8

// Tell adds an answer.
func (v *SlotValue) Tell(author uint64) {
	if v.Known = v.Known || len(v.Answers) == maxAnswers; v.Known {
		v.Answers = nil
	} else {
		v.Answers = append(slices.Clip(v.Answers), author)
	}
}

// TicketValue is the value of a ticket. The key names the ticket's author: the presence of the
// peer that wrote it first, or the client session that has enqueued.
type TicketValue struct {
	Lease      Hash   `json:"lease"`
	Generation uint64 `json:"gen"`
	Session    Hash   `json:"session,omitzero"` // the client session for which the peer has written it; the ticket ends with it
	Wait       Span   `json:"wait_ms"`
	Place      uint64 `json:"place,omitempty"`    // the revision of the ticket's first write; 0 in that write
	Peer       Hash   `json:"peer,omitzero"`      // the presence of the peer that claims for it; zero: the author
	Grace      Span   `json:"grace_ms,omitempty"` // with Request: how long the place is kept without a caller
	Away       bool   `json:"away,omitempty"`     // with Grace: no caller waits
	TTL        Span   `json:"ttl_ms,omitempty"`   // of an enqueued ticket, or with Grace: SlotValue.TTL of the claim to come
	Nonce      Hash   `json:"nonce,omitzero"`     // of an enqueued ticket: SlotValue.Nonce of the claim to come
	Spent      bool   `json:"spent,omitempty"`    // of an enqueued ticket: it was served and the lease has ended
	Origin     Hash   `json:"origin,omitzero"`    // SlotValue.Origin of the claim to come
	Request    Hash   `json:"request,omitzero"`   // SlotValue.Request of the claim to come
	Waiter     Hash   `json:"waiter,omitzero"`    // with Grace: the origin for which the place counts
	Label      string `json:"label,omitempty"`    // SlotValue.Label of the claim to come
}

// Enqueued reports whether a session's Enqueue wrote the ticket. Any peer may claim for
// an enqueued ticket.
func (v TicketValue) Enqueued() bool { return v.TTL > 0 && v.Grace == 0 }

// SessionValue is the value of a session. A session lives for as long as a peer
// refreshes its key.
type SessionValue struct {
	Kind   string `json:"kind"` // SessionPeer or SessionClient
	Idle   Span   `json:"idle_ms"`
	Idled  Span   `json:"idled_ms,omitempty"` // how much of Idle had passed when this was written
	Origin Hash   `json:"origin,omitzero"`    // the client's origin, for the cap per origin
	Label  string `json:"label,omitempty"`    // of a client session: the label of its slots and tickets that have none
}

// Left returns how long the session lives after the write unless it is refreshed.
func (v SessionValue) Left() time.Duration { return time.Duration(v.Idle - v.Idled) }

// The kinds of sessions: a peer's presence, which owns only tickets, and a client
// session, which may also own leases.
const (
	SessionPeer   = "peer"
	SessionClient = "client"
)

// BarrierValue is the value of a barrier. A barrier has no expected revision, so
// its value names the peer's previous barrier.
type BarrierValue struct {
	Previous uint64 `json:"prev,omitempty"`
}

// Span is a duration that is encoded as whole milliseconds.
type Span time.Duration

func (s Span) Duration() time.Duration { return time.Duration(s) }

func (s Span) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(s).Milliseconds(), 10), nil
}

// UnmarshalJSON decodes milliseconds from 1 to MaxSpan.
func (s *Span) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return err
	}
	if ms < 1 || ms > MaxSpan.Milliseconds() {
		return errors.New("a time in ms must be between 1 and " + strconv.FormatInt(MaxSpan.Milliseconds(), 10))
	}
	*s = Span(time.Duration(ms) * time.Millisecond)
	return nil
}

var (
	errCorrupt = errors.New("corrupt value")
	errForeign = errors.New("foreign key")

	errLease      = errors.New("lease must not be 0")
	errLabel      = fmt.Errorf("label, owner and title must have at most %d bytes", MaxLabel)
	errOut        = fmt.Errorf("out must have positions of slots in ascending order, and reasons of at most %d bytes", MaxLabel)
	errRequests   = errors.New("requests must be pairs of hashes")
	errGeneration = errors.New("gen must not be 0")
)

// checked is a pointer to a value that can be checked; a copy of the value would take more stack.
type checked[V any] interface {
	*V
	check() error
}

// decode decodes a value and checks that it is valid. With an error it returns the
// zero value.
func decode[V any, P checked[V]](data []byte) (v V, err error) {
	if err = json.Unmarshal(data, &v); err == nil {
		err = P(&v).check()
	}
	if err != nil {
		var none V
		return none, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return v, nil
}

func (v *ConfigValue) check() error {
	most := MaxCount
	if v.Named() {
		most = v.Limit
	}
	switch {
	case v.Count < 0 || v.Count > most:
		return fmt.Errorf("count must be between 0 and %d", most)
	case v.Generation == 0:
		return errGeneration
	case len(v.Title) > MaxLabel:
		return errLabel
	case len(v.Requests)%2 != 0:
		return errRequests
	case len(v.Out) > max(most, MaxCount)+1: // positions above a limit that was lowered stay
		return fmt.Errorf("out must have at most %d elements", max(most, MaxCount)+1)
	}
	last := WholePool - 1
	for _, o := range v.Out {
		if o.Position <= last || o.Position >= max(most, MaxCount) || len(o.Reason) > MaxLabel {
			return errOut
		}
		last = o.Position
	}
	return v.Terms.check()
}

func (v *SlotValue) check() error {
	switch {
	case v.Lease.IsZero():
		return errLease
	case v.TTL <= 0:
		return fmt.Errorf("ttl_ms must be between 1 and %d", MaxSpan.Milliseconds())
	case v.Generation == 0:
		return errGeneration
	case len(v.Label) > MaxLabel || len(v.Owner) > MaxLabel:
		return errLabel
	case v.After >= MaxFence || v.Fence >= MaxFence:
		return fmt.Errorf("after and fence must be below %d", MaxFence)
	}
	return nil
}

func (v *TicketValue) check() error {
	switch {
	case v.Lease.IsZero():
		return errLease
	case v.Wait <= 0:
		return fmt.Errorf("wait_ms must be between 1 and %d", MaxSpan.Milliseconds())
	case v.Generation == 0:
		return errGeneration
	case len(v.Label) > MaxLabel:
		return errLabel
	}
	return nil
}

func (v *SessionValue) check() error {
	switch {
	case v.Kind != SessionPeer && v.Kind != SessionClient:
		return fmt.Errorf("kind must be %q or %q", SessionPeer, SessionClient)
	case v.Idle <= 0:
		return fmt.Errorf("idle_ms must be between 1 and %d", MaxSpan.Milliseconds())
	case v.Idled >= v.Idle:
		return errors.New("idled_ms must be below idle_ms")
	case len(v.Label) > MaxLabel:
		return errLabel
	}
	return nil
}

func (*BarrierValue) check() error { return nil }
