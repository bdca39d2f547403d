package wire

import (
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// The paths of streams of events: of all pools, and of one, whose id is PoolInHeader or in the
// path.
const (
	EventsPath     = "/v1/events"
	PoolEventsPath = "/l/{id}/events"
)

const (
	EventPool = "pool" // a pool's hash; only of EventsPath; may be repeated
	EventKey  = "key"  // the name of a lock or a semaphore; only of EventsPath; may be repeated
	EventType = "type" // types of events, separated by commas; may be repeated
)

// LastEventIDHeader on a request for events is the ID after which they go on.
const LastEventIDHeader = "Last-Event-Id"

var (
	// ErrMaxStreams is returned when a gateway has as many streams of events as it allows, and
	// ErrMaxStreamsPerIP when as many from one address.
	ErrMaxStreams      = errors.New("too many streams of events at this gateway")
	ErrMaxStreamsPerIP = errors.New("too many streams of events from this address")
)

// Event is an event in a stream of events, and over NATS.
type Event struct {
	ID       uint64          `json:"id"`
	Type     string          `json:"type"`
	At       string          `json:"at"`             // in UTC, with milliseconds
	Hash     string          `json:"hash,omitempty"` // of the pool
	Kind     string          `json:"kind,omitempty"` // EventOfPool, EventOfLock or EventOfSemaphore
	Name     string          `json:"name,omitempty"` // of a registered pool
	Key      string          `json:"key,omitempty"`  // of a lock or a semaphore
	Position *int            `json:"position,omitempty"`
	Fence    uint64          `json:"fence,omitempty"`
	Label    *string         `json:"label,omitempty"`
	By       string          `json:"by,omitempty"` // the operator
	Waited   *reads.Duration `json:"waited_s,omitempty"`
	Held     *reads.Duration `json:"held_s,omitempty"`
}

const (
	EventOfPool      = "pool"
	EventOfLock      = "lock"
	EventOfSemaphore = "semaphore"
)

const eventTime = "2006-01-02T15:04:05.000Z07:00"

// NewEvent returns an event as it is sent.
func NewEvent(e *kvslots.Event) Event {
	w := Event{ID: e.ID, Type: string(e.Type), At: e.Time.UTC().Format(eventTime), Hash: e.Hash, Name: e.Name, Key: e.Resource.Key, Fence: e.Fence, By: e.By}
	switch {
	case e.Hash == "":
	case e.Resource.Key == "":
		w.Kind = EventOfPool
	case e.Resource.Kind == kvslots.KindLock:
		w.Kind = EventOfLock
	default:
		w.Kind = EventOfSemaphore
	}
	if e.Fence != 0 {
		w.Position = &e.Position
	}
	took := reads.Duration(e.Took)
	switch e.Type {
	case kvslots.EventGranted, kvslots.EventLeft:
		w.Label, w.Waited = &e.Label, &took
	case kvslots.EventReturned, kvslots.EventExpired, kvslots.EventEvicted:
		w.Label, w.Held = &e.Label, &took
	case kvslots.EventSessionEnded:
		if w.Label = &e.Label; e.Fence != 0 {
			w.Held = &took
		}
	case kvslots.EventJoined:
		w.Label = &e.Label
	}
	return w
}

// Event returns the event that was sent. ok is false for one of a type that this version does not
// know, and for one that is malformed.
func (w *Event) Event() (e kvslots.Event, ok bool) {
	at, err := time.Parse(eventTime, w.At)
	_, badHash := kvslots.ByHash(w.Hash)
	if err != nil || w.Hash != "" && badHash != nil || !slices.Contains(kvslots.EventTypes, kvslots.EventType(w.Type)) {
		return e, false
	}
	e = kvslots.Event{Type: kvslots.EventType(w.Type), ID: w.ID, Time: at, Hash: w.Hash, Name: w.Name, Fence: w.Fence, By: w.By}
	switch w.Kind {
	case EventOfLock:
		e.Resource = kvslots.Lock(w.Key)
	case EventOfSemaphore:
		e.Resource = kvslots.Semaphore(w.Key, 0)
	}
	if w.Position != nil {
		e.Position = *w.Position
	}
	if w.Label != nil {
		e.Label = *w.Label
	}
	for _, took := range []*reads.Duration{w.Waited, w.Held} {
		if took != nil {
			e.Took = time.Duration(*took)
		}
	}
	return e, true
}
