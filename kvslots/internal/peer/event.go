package peer

import (
	"iter"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Event is a change that the view shows, for those who watch. It contains no secret.
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
	Took     time.Duration // Granted, Left: how long it has waited; an end of a lease: how long it was held
}

// EventKind says what has changed.
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

// An event is a function of the stream, so it is the same at every peer: it says what of the
// pools, the sessions and the peers is otherwise behind an entry than before. Which claims a
// peer finds good does not matter.

// scene is what an entry is about to change, as far as an Event needs it.
type scene struct {
	on      bool // the peer is watched, and its view live
	config  entry.ConfigValue
	was     bool // the session lived, or the pool existed
	session entry.SessionValue
	leases  []ending[*rules.Slot]   // that are live, and may end
	tickets []ending[*rules.Ticket] // that stand in a line, and may leave it
}

// ending is what may end, and the event that says so.
type ending[T any] struct {
	of    T
	event Event
}

// lookBefore notes what an entry is about to change. The label of a lease or a ticket may be
// that of its session, and cannot be told afterwards.
func (k *kernel) lookBefore(e *entry.Entry, isLive bool) {
	s := &k.scene
	*s = scene{on: k.watched && isLive, leases: s.leases[:0], tickets: s.tickets[:0]}
	if !s.on {
		return
	}
	switch pool := k.view.Pool(e.Key.Pool); e.Key.Kind {
	case entry.Config:
		if s.was = pool.Exists(); s.was {
			s.config = pool.Config
		}
		if s.was && e.Config.Generation != s.config.Generation {
			s.look(k.now, pool.Slots, pool.Tickets)
		}
	case entry.Slot:
		if held := pool.Slot(e.Key.N); held != nil {
			s.lookAtSlot(held, k.now)
		}
	case entry.Ticket:
		if t := pool.TicketAt(e.Key); t != nil {
			s.lookAtTicket(t, k.now)
		}
	case entry.Session:
		if x := k.view.Session(e.Key.Session); x.Alive() {
			if s.was, s.session = true, x.Value; e.Marker {
				s.look(k.now, slices.Values(x.Slots), slices.Values(x.Tickets))
			}
		}
	}
}

func (s *scene) look(now Instant, slots iter.Seq[*rules.Slot], tickets iter.Seq[*rules.Ticket]) {
	for slot := range slots {
		s.lookAtSlot(slot, now)
	}
	for t := range tickets {
		s.lookAtTicket(t, now)
	}
}

func (s *scene) lookAtSlot(slot *rules.Slot, now Instant) {
	if slot.Live() {
		s.leases = append(s.leases, ending[*rules.Slot]{slot, leaseEvent(slot, now.Sub(slot.Granted))})
	}
}

func (s *scene) lookAtTicket(t *rules.Ticket, now Instant) {
	if t.Stands() {
		s.tickets = append(s.tickets, ending[*rules.Ticket]{t, about(t.Pool, Event{Label: t.Label(), Took: max(0, now.Sub(t.Seen))})})
	}
}

func leaseEvent(s *rules.Slot, took time.Duration) Event {
	return about(s.Pool, Event{Position: s.Position, Fence: s.Fence, Label: s.Label(), Took: max(0, took)})
}

// about adds what an event says of its pool.
func about(pool *rules.Pool, x Event) Event {
	x.Pool, x.Title, x.Terms = pool.ID, pool.Config.Title, pool.Terms()
	return x
}

// tell makes the events of an entry that was applied.
func (k *kernel) tell(e *entry.Entry) {
	s := &k.scene
	if !s.on {
		return
	}
	pool, ended := k.view.Pool(e.Key.Pool), Withdrawn
	switch e.Key.Kind {
	case entry.Config:
		if k.tellConfig(e, pool) {
			return
		}
	case entry.Slot:
		ended = [...]EventKind{entry.NoCause: Returned, entry.Expired: LeaseOver, entry.Evicted: LeaseEvicted, entry.Withdrawn: Withdrawn}[e.Cause]
	case entry.Session:
		k.tellSession(e)
		ended = SessionOver
	}
	for i := range s.leases {
		if l := &s.leases[i]; !l.of.Live() || l.of.Fence != l.event.Fence {
			k.event(e, ended, l.event)
		}
	}
	if held := pool.Slot(e.Key.N); e.Key.Kind == entry.Slot && held.Live() && (len(s.leases) == 0 || s.leases[0].event.Fence != held.Fence) {
		k.granted(e, held)
	}
	for i := range s.tickets {
		if t := &s.tickets[i]; e.Key.Kind != entry.Slot && !stillStands(t.of) { // a slot serves it
			k.event(e, Left, t.event)
		}
	}
	if t := pool.TicketAt(e.Key); e.Key.Kind == entry.Ticket && t != nil && t.Place == e.Revision && t.Stands() {
		k.event(e, Joined, about(pool, Event{Label: t.Label()}))
	}
}

// stillStands reports whether a ticket stands, which may have been written again. One that was
// enqueued outlives the peer that served it.
func stillStands(was *rules.Ticket) bool {
	t := was.Pool.TicketAt(was.Key)
	return t != nil && t.Place == was.Place && t.Stands()
}

// granted tells of a grant, and of how long its borrower has waited.
func (k *kernel) granted(e *entry.Entry, s *rules.Slot) {
	var waited time.Duration
	if t := s.Pool.Ticket(s.Value.Ticket); t != nil {
		waited = k.now.Sub(t.Seen)
	}
	k.event(e, Granted, leaseEvent(s, waited))
}

// tellConfig reports whether a registered pool has ended, and its leases and its line with it.
func (k *kernel) tellConfig(e *entry.Entry, pool *rules.Pool) (deleted bool) {
	before, after := &k.scene.config, entry.ConfigValue{}
	was, is := k.scene.was, pool.Exists()
	if is {
		after = pool.Config
	}
	switch named := before.Named() || after.Named(); {
	case was && is && (!slices.Equal(before.Out, after.Out) || !named && (before.Count != after.Count || before.Title != after.Title)):
		k.event(e, Changed, about(pool, Event{}))
	case named || was == is:
	case is:
		k.event(e, Registered, about(pool, Event{}))
	default:
		k.event(e, Deleted, Event{Pool: e.Key.Pool, Title: before.Title})
	}
	if is && before.Generation != after.Generation {
		for s := range pool.Slots { // claims that came before their configuration
			if s.Live() {
				k.granted(e, s)
			}
		}
	}
	return was && !is && !before.Named()
}

func (k *kernel) tellSession(e *entry.Entry) {
	s, now := &k.scene, k.view.Session(e.Key.Session)
	switch {
	case s.was == now.Alive():
	case !s.was && now.Value.Kind == entry.SessionPeer:
		k.event(e, PeerCame, Event{})
	case !s.was:
	case s.session.Kind == entry.SessionPeer:
		k.event(e, PeerWent, Event{})
	case len(s.leases) == 0:
		k.event(e, SessionOver, Event{Label: s.session.Label})
	}
}

// event adds an event of an entry.
func (k *kernel) event(e *entry.Entry, kind EventKind, x Event) {
	x.Kind, x.Revision, x.Time = kind, e.Revision, e.Time
	k.out.ready.Events = append(k.out.ready.Events, x)
}
