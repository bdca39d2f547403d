package rules_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// namedHistory is a history of named pools and client sessions.
type namedHistory struct {
	history
	clients []entry.Hash // that are alive
}

// namedFrom is the number of the first named pool.
const namedFrom = 10

func TestNamedWorldAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &namedHistory{history: history{t: t, stream: newStream(), world: rules.New(), naive: newNaive(), from: namedFrom}}
		h.stream.mixed = true
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			h.step()
			h.check()
			h.checkNamed()
		}
	})
}

func (h *namedHistory) step() {
	h.oneOf([]historyStep{
		{"session", 3, h.session},
		{"end session", 1, h.endSession},
		{"client", 4, h.client},
		{"end client", 2, h.endClient},
		{"ticket", 6, h.ticket},
		{"enqueue", 4, h.enqueue},
		{"spend", 1, h.spend},
		{"end ticket", 2, h.endTicket},
		{"claim", 12, h.claim},
		{"renew", 3, h.renew},
		{"purge", 7, h.purge},
		{"barrier", 1, h.barrier},
		{"server's marker", 1, h.serverMarker},
		{"corrupt", 1, h.corrupt},
		{"time", 5, h.time},
		{"pass over", 2, h.passOver},
		{"promise", 1, h.promise},
		{"postpone", 1, h.postpone},
		{"due", 2, h.due},
	})
}

// terms draws what somebody asks for: more often than not what is in force.
func (h *namedHistory) terms(pool entry.Hash) entry.Naming {
	if p := h.naive.named[pool]; p != nil && p.inUse && rapid.IntRange(0, 3).Draw(h.t, "other terms") > 0 {
		return p.naming
	}
	n := entry.Naming{Name: nameOf(pool), Limit: rapid.IntRange(1, 3).Draw(h.t, "limit")}
	n.Lock = n.Limit == 1 && rapid.Bool().Draw(h.t, "lock")
	return n
}

func nameOf(pool entry.Hash) string { return fmt.Sprintf("name %.4s", pool) }

// client refreshes a client session, or begins one.
func (h *namedHistory) client() {
	if len(h.clients) == 0 || (len(h.clients) < 3 && rapid.Bool().Draw(h.t, "new")) {
		h.clients = append(h.clients, sessionID(h.fresh()))
	}
	e := client(rapid.SampledFrom(h.clients).Draw(h.t, "client"), 15*time.Second)
	e.Session.Idled = entry.Span(rapid.SampledFrom([]time.Duration{0, 14 * time.Second}).Draw(h.t, "idled"))
	e.Session.Origin = originID(rapid.IntRange(0, 1).Draw(h.t, "origin"))
	h.write(e)
}

func (h *namedHistory) endClient() {
	if len(h.clients) > 0 {
		i := rapid.IntRange(0, len(h.clients)-1).Draw(h.t, "client")
		h.write(marker(sessionKey(h.clients[i])))
		h.clients = slices.Delete(h.clients, i, i+1)
	}
}

// somebody draws one of those who are there, or one who has ended or was never
// seen.
func (h *namedHistory) somebody(there []entry.Hash) entry.Hash {
	if len(there) > 0 && rapid.IntRange(0, 9).Draw(h.t, "dead") > 0 {
		return rapid.SampledFrom(there).Draw(h.t, "session")
	}
	return sessionID(rapid.IntRange(0, h.next+1).Draw(h.t, "id"))
}

func (h *namedHistory) ticket() {
	pool, session := h.pool(), h.somebody(h.alive)
	key := ticketKey(pool, session, rapid.IntRange(0, 2).Draw(h.t, "n"))
	if !h.stream.taken(key) {
		h.write(namedTicket(key, leaseID(h.fresh()), h.terms(pool)))
	}
}

// enqueue draws the ticket of a client session, for any peer to claim for.
func (h *namedHistory) enqueue() {
	pool := h.pool()
	key := ticketKey(pool, h.somebody(h.clients), 0)
	if !h.stream.taken(key) {
		h.write(enqueued(namedTicket(key, leaseID(h.fresh()), h.terms(pool)), h.somebody(h.alive)))
	}
}

func (h *namedHistory) spend() {
	if e, ok := h.any(entry.Ticket, func(e entry.Entry) bool { return valid(e) && e.Wait.Enqueued() }); ok {
		e.Wait.Spent = true
		h.write(entry.Entry{Key: e.Key, Wait: e.Wait})
	}
}

// claim claims the right position more often than not; perhaps for a session,
// perhaps with a ticket, which may be anybody's or none any more.
func (h *namedHistory) claim() {
	pool := h.pool()
	v := entry.SlotValue{
		Lease: leaseID(h.fresh()), Naming: h.terms(pool), Claimer: h.somebody(h.alive),
		TTL: entry.Span(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(h.t, "ttl")),
	}
	if rapid.Bool().Draw(h.t, "owned") {
		v.Session = h.somebody(h.clients)
	}
	if line := h.tickets(pool); len(line) > 0 && rapid.IntRange(0, 3).Draw(h.t, "ticket") > 0 {
		t := rapid.SampledFrom(line).Draw(h.t, "which")
		v.Ticket, v.Lease = t.Revision, t.Wait.Lease
		if t.Wait.Enqueued() {
			v.Session, v.Unseen = t.Wait.Session, true
		}
		if rapid.IntRange(0, 9).Draw(h.t, "its terms") > 0 {
			v.Naming = t.Wait.Naming
		}
	}
	v.Incarnation = v.Terms()
	position, ok := h.naive.choose(pool, v.Ticket, &rules.InFlight{}, v.Limit, h.stream.instant())
	if !ok || rapid.IntRange(0, 3).Draw(h.t, "other") == 0 {
		position = rapid.IntRange(0, 3).Draw(h.t, "position")
	}
	if !h.stream.taken(slotKey(pool, position)) {
		h.write(claim(slotKey(pool, position), v))
	}
}

// tickets are all that were ever drawn for a pool, but those that were written
// over.
func (h *namedHistory) tickets(pool entry.Hash) []entry.Entry {
	var found []entry.Entry
	for _, e := range h.stream.log {
		if e.Key.Kind == entry.Ticket && e.Key.Pool == pool && valid(e) {
			found = append(found, e)
		}
	}
	return found[max(0, len(found)-4):]
}

func (h *namedHistory) checkNamed() {
	held, clients, from := 0, 0, map[entry.Hash]int{}
	for _, p := range h.naive.named {
		if p.inUse {
			held++
		}
	}
	for key, e := range h.naive.last {
		if key.Kind == entry.Session && valid(e) && e.Session.Kind == entry.SessionClient {
			clients++
			from[e.Session.Origin]++
		}
	}
	if h.world.Named() != held || h.world.Clients() != clients {
		h.t.Fatalf("%d named pools, %d clients; want %d, %d", h.world.Named(), h.world.Clients(), held, clients)
	}
	for i := range 2 {
		if got := h.world.ClientsFrom(originID(i)); got != from[originID(i)] {
			h.t.Fatalf("%d clients from %d, want %d", got, i, from[originID(i)])
		}
	}
	for i := range historyPools {
		if p := h.world.Pool(poolID(h.from + i)); p != nil {
			h.checkTerms(p)
			h.checkTickets(p)
			h.checkChoice(p, rapid.IntRange(1, 3).Draw(h.t, "reckons with"))
		} else if n := h.naive.named[poolID(h.from+i)]; n != nil && n.inUse {
			h.t.Fatalf("a pool is forgotten, and its terms are %+v", n)
		} else {
			delete(h.naive.named, poolID(h.from+i))
		}
	}
	for i := range h.next + 2 {
		h.checkSession(sessionID(i))
	}
	h.checkUnattended()
}

func (h *namedHistory) checkTerms(p *rules.Pool) {
	if p.Disputed() != h.naive.disputed(p.ID) || p.Agreed() != h.naive.agreed(p.ID) {
		h.t.Fatalf("disputed %v, agreed %v; want %v, %v", p.Disputed(), p.Agreed(), h.naive.disputed(p.ID), h.naive.agreed(p.ID))
	}
	want, at, idle := h.naive.named[p.ID], rules.Instant(0), false
	if want == nil { // nobody ever came, or it was forgotten since
		if p.Registered() {
			h.t.Fatalf("nobody came, and the terms are %+v", p.Naming())
		}
		return
	}
	if at, idle = p.IdleSince(); idle == want.inUse || (idle && at != want.idleSince) {
		h.t.Fatalf("idle: %v since %d; want %v since %d", idle, at, !want.inUse, want.idleSince)
	}
	if p.Naming() != want.naming {
		h.t.Fatalf("terms: got %+v, want %+v", p.Naming(), want.naming)
	}
}

func (h *namedHistory) checkTickets(p *rules.Pool) {
	p.Tickets(func(t *rules.Ticket) bool {
		e := h.naive.last[t.Key]
		if t.Unsure() != h.naive.unsure[e.Revision] || t.Void() != h.naive.void[e.Revision] || t.Stands() != h.naive.stands(e) || (t.Claim() != nil) != h.naive.served(e) {
			h.t.Fatalf("ticket %d: unsure %v, void %v, stands %v, claimed %v; want %v, %v, %v, %v", t.Revision, t.Unsure(), t.Void(), t.Stands(), t.Claim() != nil,
				h.naive.unsure[e.Revision], h.naive.void[e.Revision], h.naive.stands(e), h.naive.served(e))
		}
		return true
	})
	for _, e := range h.naive.last {
		if e.Key.Pool == p.ID && h.naive.inLine(e) && p.Ticket(e.Revision) == nil {
			h.t.Fatalf("ticket %d is not known", e.Revision)
		}
	}
}

func (h *namedHistory) checkSession(id entry.Hash) {
	var tickets, slots, got []uint64
	for _, e := range h.naive.last {
		switch {
		case h.naive.inLine(e) && e.Wait.Session == id:
			tickets = append(tickets, e.Revision)
		case e.Key.Kind == entry.Slot && valid(e) && e.Slot.Session == id && h.naive.ended[id] < e.Revision:
			slots = append(slots, e.Revision)
		}
	}
	for _, t := range h.world.TicketsOf(id) {
		got = append(got, t.Revision)
	}
	h.wantSame("tickets of a session", got, tickets)
	got = nil
	for _, s := range h.world.SlotsOf(id) {
		got = append(got, s.Revision)
	}
	h.wantSame("slots of a session", got, slots)
	got = nil
	h.world.EachSlotOf(id, func(s *rules.Slot) bool {
		got = append(got, s.Revision)
		return len(got) < 2
	})
	if len(got) != min(2, len(slots)) {
		h.t.Fatalf("%d of the slots of a session, want at most 2 of %d", len(got), len(slots))
	}
}

func (h *namedHistory) checkUnattended() {
	var got, want []uint64
	for _, e := range h.naive.last {
		if h.naive.inLine(e) && !valid(h.naive.last[sessionKey(e.Wait.Session)]) {
			want = append(want, e.Revision)
		}
	}
	for _, t := range h.world.Unattended(1000) {
		got = append(got, t.Revision)
	}
	h.wantSame("unattended", got, want)
	if n := len(h.world.Unattended(1)); n != min(1, len(want)) {
		h.t.Fatalf("unattended: %d, at most one was asked for", n)
	}
}

func (h *namedHistory) wantSame(what string, got, want []uint64) {
	slices.SortFunc(got, cmp.Compare)
	slices.SortFunc(want, cmp.Compare)
	if !slices.Equal(got, want) {
		h.t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
