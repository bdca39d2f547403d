package peer

import (
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
	Joined                        // a borrow has joined the line
	Left                          // a borrow has left the line without a slot
	Registered                    // a pool was registered
	Changed                       // its count, its title or what is out of service has changed
	Deleted                       // a pool has ended, and its leases with it
	SessionOver                   // a client session has ended; one event for each lease that ended with it
	PeerCame
	PeerWent
)

// scene is what an entry is about to change, as far as an Event needs it.
type scene struct {
	on      bool // the peer is watched, and its view live
	kind    entry.Kind
	was     bool // the slot was lent, the ticket stood, the session lived, or the pool existed
	event   Event
	config  entry.ConfigValue
	session entry.SessionValue
	leases  []ending[*rules.Slot]   // of a session
	tickets []ending[*rules.Ticket] // that stood in a line, and may end with a session
}

// ending is what may end with a session, and the event that says so.
type ending[T any] struct {
	of    T
	event Event
}

// lookBefore returns what an entry is about to change.
func (k *kernel) lookBefore(e *entry.Entry) (s scene) {
	if !k.watched || k.feed.mode != live {
		return s
	}
	s.on, s.kind = true, e.Key.Kind
	switch pool := k.view.Pool(e.Key.Pool); e.Key.Kind {
	case entry.Config:
		if s.was = pool.Exists(); s.was {
			s.config = pool.Config
		}
	case entry.Slot:
		if held := pool.Slot(e.Key.N); held != nil && held.Live() && !held.Excluded() {
			s.was = true
			s.event = k.leaseEvent(held)
		}
	case entry.Ticket:
		if t := pool.TicketAt(e.Key); t != nil && t.Stands() {
			s.was = true
			s.event = k.ticketEvent(t)
		}
	case entry.Session:
		if x := k.view.Session(e.Key.Session); x.Alive() {
			s.was, s.session = true, x.Value
			if e.Marker {
				k.lookAtSession(x, &s)
			}
		}
	}
	return s
}

// lookAtSession notes what may end with a session, since the label of a lease or of a ticket may
// be the session's, and whether a ticket has stood cannot be told afterwards.
func (k *kernel) lookAtSession(x *rules.Session, s *scene) {
	for _, slot := range x.Slots {
		if slot.Live() && !slot.Excluded() {
			s.leases = append(s.leases, ending[*rules.Slot]{slot, k.leaseEvent(slot)})
		}
	}
	for _, t := range x.Tickets {
		if t.Stands() {
			s.tickets = append(s.tickets, ending[*rules.Ticket]{t, k.ticketEvent(t)})
		}
	}
}

func (k *kernel) ticketEvent(t *rules.Ticket) Event {
	return Event{Label: t.Label(), Took: max(0, k.now.Sub(t.Seen))}
}

func (k *kernel) leaseEvent(s *rules.Slot) Event {
	return Event{Position: s.Position, Fence: s.Fence, Label: s.Label(), Took: max(0, k.now.Sub(s.Granted))}
}

// grantEvent returns the event of a grant, which says how long its borrower has waited.
func (k *kernel) grantEvent(s *rules.Slot) Event {
	granted := k.leaseEvent(s)
	granted.Took = 0
	if t := s.Pool.Ticket(s.Value.Ticket); t != nil {
		granted.Took = max(0, k.now.Sub(t.Seen))
	}
	return granted
}

// tell makes the events of an entry that was applied.
func (k *kernel) tell(e *entry.Entry, s *scene) {
	if !s.on || k.feed.mode != live {
		return
	}
	pool := k.view.Pool(e.Key.Pool)
	switch s.kind {
	case entry.Config:
		k.tellConfig(e, pool, s)
	case entry.Slot:
		held := pool.Slot(e.Key.N)
		switch lent := !e.Marker && held.Live() && !held.Excluded(); { // if it is withdrawn, an event says so
		case lent && (!s.was || s.event.Fence != held.Fence):
			k.event(e, pool, Granted, k.grantEvent(held))
		case e.Marker && s.was:
			k.event(e, pool, [...]EventKind{entry.NoCause: Returned, entry.Expired: LeaseOver, entry.Evicted: LeaseEvicted}[e.Cause], s.event)
		}
	case entry.Ticket:
		t := pool.TicketAt(e.Key)
		switch {
		case e.Marker && s.was:
			k.event(e, pool, Left, s.event)
		case !e.Marker && t != nil && t.Place == e.Revision && t.Stands():
			k.event(e, pool, Joined, Event{Label: t.Label()})
		}
	case entry.Session:
		k.tellSession(e, s)
	}
}

func (k *kernel) tellConfig(e *entry.Entry, pool *rules.Pool, s *scene) {
	is := pool.Exists()
	switch named := (s.config.Named() || pool.Terms().Named()); {
	case s.was && !is && !named:
		k.event(e, nil, Deleted, Event{Pool: e.Key.Pool, Title: s.config.Title})
	case !s.was && is && !named:
		k.event(e, pool, Registered, Event{})
	case s.was && is && s.config.Closing == pool.Config.Closing && (!named || len(s.config.Out)+len(pool.Config.Out) > 0):
		k.event(e, pool, Changed, Event{})
	}
}

func (k *kernel) tellSession(e *entry.Entry, s *scene) {
	now := k.view.Session(e.Key.Session)
	switch {
	case s.was == now.Alive():
		return
	case !s.was:
		if now.Value.Kind == entry.SessionPeer {
			k.event(e, nil, PeerCame, Event{})
		}
		return
	case s.session.Kind == entry.SessionPeer:
		k.event(e, nil, PeerWent, Event{})
	case len(s.leases) == 0:
		k.event(e, nil, SessionOver, Event{Label: s.session.Label})
	}
	for i := range s.leases {
		k.event(e, s.leases[i].of.Pool, SessionOver, s.leases[i].event)
	}
	for i := range s.tickets {
		if t := s.tickets[i].of; !t.Stands() { // one that was enqueued outlives the peer that served it
			k.event(e, t.Pool, Left, s.tickets[i].event)
		}
	}
}

// event adds an event of an entry. pool is nil if it is about none that exists.
func (k *kernel) event(e *entry.Entry, pool *rules.Pool, kind EventKind, x Event) {
	if x.Kind, x.Revision, x.Time = kind, e.Revision, e.Time; pool != nil {
		x.Pool, x.Title, x.Terms = pool.ID, pool.Config.Title, pool.Terms()
	}
	k.out.ready.Events = append(k.out.ready.Events, x)
}
