package kvslots

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Event is a change that a Store sees. It contains no secret.
type Event struct {
	Type EventType

	// ID is that of the entry of the stream that made the change, so it is the same at every
	// Store of a bucket, and grows. Several events may share it.
	ID   uint64
	Time time.Time // of the change, by the clock of the stream's leader

	Hash     string   // of the pool; "" if the event is about none
	Name     string   // of a registered pool: see WithName
	Resource Resource // of a lock or a semaphore; zero for a registered pool

	Position int    // of EventGranted and the ends of leases
	Fence    uint64 // of the same; 0: the event is about no lease
	Label    string // of the holder, of the borrower in line, or of the session: see WithLabel

	// By is the name of the operator who has ended a lease, or changed a pool: see WithOperator. "": none,
	// or it is not known.
	By string

	// Took is how long a lease was held that has ended, or a borrower has waited that was granted
	// a slot or has left the line.
	Took time.Duration

	encoded *encoding // nil unless a Watcher has returned it
}

// encoding is an encoded event, which all Watchers of a Store share.
type encoding struct {
	once sync.Once
	text []byte
}

// Encoded returns what encode returns for the event. It calls encode once for all Watchers of the
// Store, so all callers must pass the same function, and none may change the result.
func (e *Event) Encoded(encode func(*Event) []byte) []byte {
	if e.encoded == nil {
		return encode(e)
	}
	e.encoded.once.Do(func() { e.encoded.text = encode(e) })
	return e.encoded.text
}

// EventType says what has changed.
type EventType string

// The types of events.
const (
	EventStartsOver   EventType = "starts_over"   // changes may be missing: what was read before is out of date
	EventGranted      EventType = "granted"       // a slot was taken. EventWithdrawn follows if its borrower is not told
	EventReturned     EventType = "returned"      // a lease was ended by its holder
	EventExpired      EventType = "expired"       // a lease has expired
	EventEvicted      EventType = "evicted"       // a lease was ended by Evict
	EventWithdrawn    EventType = "withdrawn"     // a grant was undone before its borrower was told: it may be back in line
	EventJoined       EventType = "joined"        // a borrower has joined the line
	EventLeft         EventType = "left"          // a borrower has left the line without a slot
	EventRegistered   EventType = "registered"    // a pool was registered
	EventChanged      EventType = "changed"       // a pool's count, name or limit has changed, or what is out of service
	EventDeleted      EventType = "deleted"       // a pool was deleted, or removed as idle; its leases have ended
	EventSessionEnded EventType = "session_ended" // a session has ended; if it held leases, one event for each of these
	EventPeerJoined   EventType = "peer_joined"   // a Store was opened
	EventPeerLeft     EventType = "peer_left"     // a Store was closed, or has died
)

// EventTypes are all types, in the order of the constants, which is that of peer.EventKind.
var EventTypes = []EventType{
	EventStartsOver, EventGranted, EventReturned, EventExpired, EventEvicted, EventWithdrawn, EventJoined, EventLeft, EventRegistered,
	EventChanged, EventDeleted, EventSessionEnded, EventPeerJoined, EventPeerLeft,
}

const (
	// maxEvents is how many events a Store remembers for its watchers. One that falls further
	// behind starts over.
	maxEvents = 1 << 13

	// eventPace is the least time between two wakes of the watchers that wait: all wake, also those
	// of other pools.
	eventPace = 50 * time.Millisecond

	// eventMemory is how long a Store goes on remembering events when the last watcher has gone,
	// which may come back.
	eventMemory = 2 * time.Minute
)

// watching remembers the latest events in a ring, from which each watcher reads at its own pace:
// so a slow watcher costs nothing. Its lock is taken after the bucket's.
type watching struct {
	mu       sync.Mutex
	on       bool          // the peer makes events
	ring     []noted       // the event with the number n is at n%maxEvents
	next     uint64        // the number of the next event
	complete uint64        // all events of the revisions above are in the ring
	changed  chan struct{} // closed when there are new events, every eventPace at most
	woke     time.Time     // when it was last closed
	waking   bool          // a timer closes it
	closed   bool          // the Store is closed
	watchers int
	off      *time.Timer // turns the watching off
}

type noted struct {
	Event
	pool entry.Hash
}

func (w *watching) note(events []peer.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		e := noted{eventOf(&events[i]), events[i].Pool}
		if len(w.ring) < maxEvents {
			w.ring = append(w.ring, e)
		} else {
			old := &w.ring[w.next%maxEvents]
			w.complete = old.ID
			*old = e
		}
		w.next++
	}
	if w.waking {
		return
	}
	if wait := eventPace - time.Since(w.woke); wait > 0 {
		w.waking = true
		time.AfterFunc(wait, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waking = false
			w.wake()
		})
		return
	}
	w.wake()
}

func (w *watching) wake() {
	close(w.changed)
	w.changed, w.woke = make(chan struct{}), time.Now()
}

func (w *watching) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake()
}

// Watcher reads the events of a Store. Only one goroutine may use it at a time.
type Watcher struct {
	store *Store
	pools []PoolRef // those that it is about; none: everything
	at    uint64    // the number of the next event to read
	id    uint64    // see ID
	over  bool      // begin with EventStartsOver
	ahead bool      // id is above what this Store has seen
}

// EventReader is a Watcher, or that of a client.Client. Only one goroutine may use it at a time.
type EventReader interface {
	Next(ctx context.Context) ([]Event, error)
	ID() uint64
	Close()
}

// Watch returns a Watcher of the events with an ID above after, which a Watcher of the same bucket
// has read last: of all events, or of those about some pools. If after is 0, or the Store has not
// all of these events any more, it begins with an EventStartsOver. The Watcher must be closed.
//
// A Store makes events only while it has Watchers, and remembers them for two minutes longer.
func (s *Store) Watch(after uint64, pools ...PoolRef) EventReader {
	x := &Watcher{store: s, pools: pools, id: after}
	s.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) {
		w := &s.watching
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers++
		if w.off != nil {
			w.off.Stop()
		}
		revision := p.Watch(true)
		if !w.on {
			w.on, w.ring, w.complete = true, nil, revision
			w.next = (w.next/maxEvents + 1) * maxEvents
		}
		x.begin(revision)
	})
	return x
}

// begin sets where to begin to read the events with an ID above x.id. revision is that of the
// view, or 0 if the view is not live: then an EventStartsOver is in the ring when it is.
func (x *Watcher) begin(revision uint64) {
	w := &x.store.watching
	x.at, x.ahead = w.next, false
	switch {
	case revision == 0:
	case x.id > revision: // another Store is ahead of this one, or the bucket is another one
		x.ahead = true
	case x.id == 0 || x.id < w.complete:
		x.startOver(revision)
	default:
		for first := w.next - uint64(len(w.ring)); x.at > first && w.ring[(x.at-1)%maxEvents].ID > x.id; {
			x.at--
		}
	}
}

func (x *Watcher) startOver(revision uint64) { x.over, x.id = true, revision }

// catchUp waits until this Store has seen what was in the bucket when the Watcher was made, however
// long it cannot reach it, and begins again.
func (x *Watcher) catchUp(ctx context.Context) error {
	for {
		_, err := x.store.bucket.Do(ctx, peer.ReadPool{})
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return err
		}
		if !errors.Is(err, ErrUnavailable) {
			break
		}
	}
	x.store.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) {
		w := &x.store.watching
		w.mu.Lock()
		defer w.mu.Unlock()
		revision := p.Watch(true)
		if x.begin(revision); x.ahead {
			x.ahead = false
			x.startOver(revision)
		}
	})
	return nil
}

// ID returns the ID after which another Watcher of the same pools goes on where this one is. It
// may be above that of the last event that Next has returned, since those of other pools count;
// 0: there is none yet.
func (x *Watcher) ID() uint64 { return x.id }

// Close ends the watching.
func (x *Watcher) Close() {
	w := &x.store.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers--; w.watchers == 0 && !w.closed {
		w.off = time.AfterFunc(eventMemory, x.store.forgetEvents)
	}
}

func (s *Store) forgetEvents() {
	s.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) {
		w := &s.watching
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watchers == 0 {
			p.Watch(false)
			w.on, w.ring = false, nil
		}
	})
}

// Next returns the next events, at least one, and blocks until there is one. It returns all
// events of an ID together. The errors are ErrClosed and context.Cause(ctx).
func (x *Watcher) Next(ctx context.Context) ([]Event, error) {
	for {
		if x.ahead {
			if err := x.catchUp(ctx); err != nil {
				return nil, err
			}
		}
		events, changed, err := x.read()
		if len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// maxRead is the most events that Next returns, if they are not all of one ID.
const maxRead = 1024

func (x *Watcher) read() (events []Event, changed <-chan struct{}, err error) {
	w := &x.store.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, nil, ErrClosed
	case x.over:
		x.over = false
		return []Event{{Type: EventStartsOver, ID: x.id, Time: time.Now()}}, nil, nil
	case w.next-x.at > uint64(len(w.ring)): // it is too slow
		last := &w.ring[(w.next-1)%maxEvents]
		x.at, x.id = w.next, last.ID
		return []Event{{Type: EventStartsOver, ID: last.ID, Time: last.Time}}, nil, nil
	}
	for ; x.at < w.next; x.at++ {
		e := &w.ring[x.at%maxEvents]
		if len(events) >= maxRead && e.ID != events[len(events)-1].ID {
			break
		}
		if x.id = e.ID; e.Type == EventStartsOver || len(x.pools) == 0 || slices.ContainsFunc(x.pools, func(p PoolRef) bool { return p.hash == e.pool }) {
			events = append(events, e.Event)
		}
	}
	return events, w.changed, nil
}

func eventOf(e *peer.Event) Event {
	event := Event{
		Type: EventTypes[e.Kind], ID: e.Revision, Time: e.Time, Name: e.Title, Position: e.Position, Fence: e.Fence, Label: e.Label, By: e.By, Took: e.Took,
		encoded: &encoding{},
	}
	if !e.Pool.IsZero() {
		event.Hash = e.Pool.String()
	}
	if e.Terms.Named() {
		event.Resource = resourceOf(e.Terms)
	}
	return event
}

func resourceOf(t entry.Terms) Resource {
	if t.Lock {
		return Lock(t.Name)
	}
	return Semaphore(t.Name, t.Limit)
}

// First reports whether this Store, of those that are open on the bucket, is the one that does
// what only one of them has to do. When one opens or ends, none or two may be the first for some
// seconds.
func (s *Store) First() (first bool) {
	s.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) { first = p.First() })
	return first
}
