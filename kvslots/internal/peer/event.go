package peer

import (
	"iter"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
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

// watch makes the events for readers.
type watch struct {
	*kernel
	on    bool
	scene scene // before the entry that is being applied
}

func (w *watch) set(on bool) { w.on = on }

// before notes what an entry is about to change. The label of a lease or a ticket may be
// that of its session, and cannot be told afterwards.
func (w *watch) before(e *entry.Entry) {
	s := &w.scene
	*s = scene{on: w.on && w.isLive(), leases: s.leases[:0], tickets: s.tickets[:0]}
	if !s.on {
		return
	}
	switch pool := w.view().Pool(e.Key.Pool); e.Key.Kind {
	case entry.Config:
		if s.was = pool.Exists(); s.was {
			s.config = pool.Config
		}
		if s.was && e.Config.Generation != s.config.Generation {
			s.look(w.now(), pool.Slots, pool.Tickets)
		}
	case entry.Slot:
		if held := pool.Slot(e.Key.N); held != nil {
			s.lookAtSlot(held, w.now())
		}
	case entry.Ticket:
		if t := pool.TicketAt(e.Key); t != nil {
			s.lookAtTicket(t, w.now())
		}
	case entry.Session:
		if x := w.view().Session(e.Key.Session); x.Alive() {
			if s.was, s.session = true, x.Value; e.Marker {
				s.look(w.now(), slices.Values(x.Slots), slices.Values(x.Tickets))
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

// after makes the events of an entry that was applied.
func (w *watch) after(e *entry.Entry) {
	s := &w.scene
	if !s.on {
		return
	}
	pool, ended := w.view().Pool(e.Key.Pool), Withdrawn
	switch e.Key.Kind {
	case entry.Config:
		if w.tellConfig(e, pool) {
			return
		}
	case entry.Slot:
		ended = [...]EventKind{entry.NoCause: Returned, entry.Expired: LeaseOver, entry.Evicted: LeaseEvicted, entry.Withdrawn: Withdrawn}[e.Cause]
	case entry.Session:
		w.tellSession(e)
		ended = SessionOver
	}
	for i := range s.leases {
		if l := &s.leases[i]; !l.of.Live() || l.of.Fence != l.event.Fence {
			l.event.By = e.By
			w.event(e, ended, l.event)
		}
	}
	if held := pool.Slot(e.Key.N); e.Key.Kind == entry.Slot && held.Live() && (len(s.leases) == 0 || s.leases[0].event.Fence != held.Fence) {
		w.granted(e, held)
	}
	for i := range s.tickets {
		if t := &s.tickets[i]; e.Key.Kind != entry.Slot && !stillStands(t.of) { // a slot serves it
			w.event(e, Left, t.event)
		}
	}
	if t := pool.TicketAt(e.Key); e.Key.Kind == entry.Ticket && t != nil && t.Place == e.Revision && t.Stands() {
		w.event(e, Joined, about(pool, Event{Label: t.Label()}))
	}
}

// stillStands reports whether a ticket stands, which may have been written again. One that was
// enqueued outlives the peer that served it.
func stillStands(was *rules.Ticket) bool {
	t := was.Pool.TicketAt(was.Key)
	return t != nil && t.Place == was.Place && t.Stands()
}

// granted tells of a grant, and of how long its borrower has waited.
func (w *watch) granted(e *entry.Entry, s *rules.Slot) {
	var waited time.Duration
	if t := s.Pool.Ticket(s.Value.Ticket); t != nil {
		waited = w.now().Sub(t.Seen)
	}
	w.event(e, Granted, leaseEvent(s, waited))
}

// tellConfig reports whether a registered pool has ended, and its leases and its line with it.
func (w *watch) tellConfig(e *entry.Entry, pool *rules.Pool) (deleted bool) {
	before, after := &w.scene.config, entry.ConfigValue{}
	was, is := w.scene.was, pool.Exists()
	if is {
		after = pool.Config
	}
	same := before.Generation == after.Generation
	switch named := before.Named() || after.Named(); {
	case is && (was || named) && (!slices.Equal(before.Out, after.Out) || same && (before.Count != after.Count || before.Title != after.Title)):
		w.event(e, Changed, about(pool, Event{By: after.By}))
	case named || was == is:
	case is:
		w.event(e, Registered, about(pool, Event{}))
	default:
		w.event(e, Deleted, Event{Pool: e.Key.Pool, Title: before.Title})
	}
	if is && before.Generation != after.Generation {
		for s := range pool.Slots { // claims that came before their configuration
			if s.Live() {
				w.granted(e, s)
			}
		}
	}
	return was && !is && !before.Named()
}

func (w *watch) tellSession(e *entry.Entry) {
	s, now := &w.scene, w.view().Session(e.Key.Session)
	switch {
	case s.was == now.Alive():
	case !s.was && now.Value.Kind == entry.SessionPeer:
		w.event(e, PeerCame, Event{})
	case !s.was:
	case s.session.Kind == entry.SessionPeer:
		w.event(e, PeerWent, Event{})
	case len(s.leases) == 0:
		w.event(e, SessionOver, Event{Label: s.session.Label})
	}
}

func (w *watch) startsOver() {
	if w.on {
		w.add(Event{Kind: StartsOver, Revision: w.view().Revision, Time: w.view().Time})
	}
}

func (w *watch) event(e *entry.Entry, kind EventKind, x Event) {
	x.Kind, x.Revision, x.Time = kind, e.Revision, e.Time
	w.add(x)
}

func (w *watch) add(x Event) { w.output().Events = append(w.output().Events, x) }
