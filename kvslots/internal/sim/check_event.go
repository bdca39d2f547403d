package sim

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// events compares the events of a peer with those that the stream gives: each peer tells all of
// them, in the order of the stream, each once, from where it has last started over.
type events struct {
	*node
	next     int    // of truth.events: the first that the peer has not told
	certain  bool   // it has started over, with a view of the present stream
	rebuilds uint64 // how often the peer had built its view anew when certain became false
}

// note checks the events that a peer tells at once.
func (x *events) note(told []peer.Event) {
	for len(told) > 0 {
		if told[0].Kind == peer.StartsOver {
			x.startOver(told[0].Revision)
			told = told[1:]
			continue
		}
		n := slices.IndexFunc(told, func(e peer.Event) bool { return e.Kind == peer.StartsOver || e.Revision != told[0].Revision })
		if n < 0 {
			n = len(told)
		}
		x.compare(told[:n])
		told = told[n:]
	}
}

func (x *events) startOver(revision uint64) {
	s := x.s
	s.met.add(eventName(peer.StartsOver))
	x.certain = x.certain || x.peer.Counters().Rebuilds > x.rebuilds // otherwise the view may have what is in the stream no more
	x.next, _ = slices.BinarySearchFunc(s.server.truth.events, revision+1, func(e peer.Event, at uint64) int { return cmp.Compare(e.Revision, at) })
}

// compare compares what a peer tells of one entry with what the stream says.
func (x *events) compare(told []peer.Event) {
	s := x.s
	for i := range told {
		s.met.add(eventName(told[i].Kind))
	}
	if !x.certain {
		return
	}
	if told = slices.DeleteFunc(slices.Clone(told), x.excused); len(told) == 0 {
		return
	}
	for i := range told {
		told[i].Took = 0
	}
	slices.SortFunc(told, compareEvents)
	var due []peer.Event
	for _, e := range s.server.truth.events[x.next:] {
		if len(due) > 0 && e.Revision != due[0].Revision {
			break
		}
		x.next++
		if !x.excused(e) {
			due = append(due, e)
		}
	}
	if !slices.Equal(told, due) {
		s.fail("event", "%s tells %+v, and the next events of the stream are %+v", x.name(), told, due)
	}
}

// excused reports whether a peer's view may have had another state of an event's pool.
func (x *events) excused(e peer.Event) bool { return x.s.server.mayRevive(e.Pool) }

func (x *events) checkEnd() {
	_, g := x.peer.Metrics(x.clock())
	if due := slices.DeleteFunc(slices.Clone(x.s.server.truth.events[x.next:]), x.excused); x.certain && len(due) > 0 && due[0].Revision <= g.Revision {
		x.s.fail("event", "%s has not told of %+v", x.name(), due[0])
	}
}

// streamChanged forgets the events: the stream has gone back, or has what it had not.
func (t *truth) streamChanged() {
	t.events = nil
	for _, n := range t.s.nodes {
		if x := &n.events; n.peer != nil {
			x.next, x.certain, x.rebuilds = 0, false, n.peer.Counters().Rebuilds
		}
	}
}

// scene is what an entry may change, as far as events tell of it.
type scene struct {
	config  entry.ConfigValue // of the entry's pool; zero if there is none
	leases  []peer.Event
	tickets map[uint64]peer.Event // those that stand, by place
}

// sceneOf returns what there is to see before an entry, or after it.
func (t *truth) sceneOf(e *entry.Entry) scene {
	s := scene{tickets: map[uint64]peer.Event{}}
	switch e.Key.Kind {
	case entry.Config, entry.Slot, entry.Ticket:
		p := t.pool(e.Key.Pool)
		s.config = p.config.Config
		t.see(p, &s)
	case entry.Session:
		if e.Marker {
			for _, p := range t.pools {
				t.see(p, &s)
			}
		}
	}
	return s
}

func (t *truth) see(p *poolTruth, s *scene) {
	about := peer.Event{Pool: p.id, Title: p.config.Config.Title, Terms: p.config.Config.Terms}
	label := func(own string, session entry.Hash) string {
		if holder := t.sessions[session]; own == "" && holder != nil {
			return holder.Session.Label
		}
		return own
	}
	for position, e := range p.slots {
		if t.holds(p, e) {
			x := about
			x.Position, x.Fence, x.Label = position, e.Fence(), label(e.Slot.Label, e.Slot.Session)
			s.leases = append(s.leases, x)
		}
	}
	for _, w := range p.tickets {
		if p.registered() && w.Ticket.Generation == p.config.Config.Generation && !w.Ticket.Spent && t.lives(w) && !t.serves(p, w) {
			x := about
			x.Label = label(w.Ticket.Label, w.Key.Session)
			s.tickets[w.place] = x
		}
	}
}

func (t *truth) serves(p *poolTruth, w *ticketTruth) bool {
	for _, e := range p.slots {
		if e.Slot.Ticket == w.place && t.holds(p, e) {
			return true
		}
	}
	return false
}

func (t *truth) tell(e, was *entry.Entry, before scene) {
	var events []peer.Event
	add := func(kind peer.EventKind, x peer.Event) {
		x.Kind, x.Revision, x.Time = kind, e.Revision, e.Time
		events = append(events, x)
	}
	after := t.sceneOf(e)
	deleted := e.Key.Kind == entry.Config && tellConfig(e, before.config, after.config, add)
	ended := endings[e.Cause]
	switch e.Key.Kind {
	case entry.Config:
		ended = peer.Withdrawn
	case entry.Session:
		ended = peer.SessionOver
		tellSession(e, was, len(before.leases) > len(after.leases), add)
	}
	same := func(x peer.Event) func(peer.Event) bool {
		return func(y peer.Event) bool { return x.Pool == y.Pool && x.Position == y.Position && x.Fence == y.Fence }
	}
	for _, l := range before.leases {
		if !deleted && !slices.ContainsFunc(after.leases, same(l)) {
			t.s.check.checkCause(ended, l)
			add(ended, l)
		}
	}
	for _, l := range after.leases {
		if !slices.ContainsFunc(before.leases, same(l)) {
			add(peer.Granted, l)
		}
	}
	for place, x := range before.tickets {
		if _, stands := after.tickets[place]; !stands && !deleted && e.Key.Kind != entry.Slot { // a slot serves it
			add(peer.Left, x)
		}
	}
	if x, stands := after.tickets[e.Revision]; stands {
		add(peer.Joined, x)
	}
	slices.SortFunc(events, compareEvents)
	t.events = append(t.events, events...)
}

var endings = map[entry.Cause]peer.EventKind{
	entry.NoCause: peer.Returned, entry.Expired: peer.LeaseOver, entry.Evicted: peer.LeaseEvicted, entry.Withdrawn: peer.Withdrawn,
}

// tellConfig tells of a registered pool, and of what is out of service in a named one. deleted
// reports whether the pool's leases and line have ended with it.
func tellConfig(e *entry.Entry, before, after entry.ConfigValue, add func(peer.EventKind, peer.Event)) (deleted bool) {
	was, is := before.Generation != 0, after.Generation != 0
	about := peer.Event{Pool: e.Key.Pool, Title: after.Title, Terms: after.Terms}
	same := before.Generation == after.Generation
	switch named := before.Named() || after.Named(); {
	case is && (was || named) && (!slices.Equal(before.Out, after.Out) || same && (before.Count != after.Count || before.Title != after.Title)):
		add(peer.Changed, about)
	case named || was == is:
	case is:
		add(peer.Registered, about)
	default:
		about.Title = before.Title
		add(peer.Deleted, about)
		return true
	}
	return false
}

// tellSession tells of a session itself: of the end of one that held leases, these tell.
func tellSession(e, was *entry.Entry, held bool, add func(peer.EventKind, peer.Event)) {
	switch {
	case was == nil && !e.Marker && e.Session.Kind == entry.SessionPeer:
		add(peer.PeerCame, peer.Event{})
	case was == nil || !e.Marker:
	case was.Session.Kind == entry.SessionPeer:
		add(peer.PeerWent, peer.Event{})
	case !held:
		add(peer.SessionOver, peer.Event{Label: was.Session.Label})
	}
}

func (k *checker) checkCause(why peer.EventKind, x peer.Event) {
	l := k.pool(x.Pool).leaseWith(x.Position, x.Fence)
	switch {
	case why == peer.LeaseEvicted && !k.evictions[claimKey{rules.SlotKey(x.Pool, x.Position), x.Fence}]:
		k.s.fail("event", "an eviction that no call has asked for: %+v", x)
	case why == peer.Withdrawn && l != nil && !l.uncertain && !l.abandoned && !k.s.server.mayRevive(x.Pool):
		k.s.fail("event", "a grant is withdrawn of which a client was told: %+v", x)
	}
}

func compareEvents(x, y peer.Event) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), bytes.Compare(x.Pool[:], y.Pool[:]), cmp.Compare(x.Position, y.Position),
		cmp.Compare(x.Fence, y.Fence), strings.Compare(x.Label, y.Label))
}

func eventName(kind peer.EventKind) string {
	return "event: " + [...]string{
		peer.StartsOver: "starts over", peer.Granted: "granted", peer.Returned: "returned", peer.LeaseOver: "over", peer.LeaseEvicted: "evicted",
		peer.Withdrawn: "withdrawn", peer.Joined: "joined", peer.Left: "left", peer.Registered: "registered", peer.Changed: "changed",
		peer.Deleted: "deleted", peer.SessionOver: "session over", peer.PeerCame: "peer came", peer.PeerWent: "peer went",
	}[kind]
}
