package rules_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// history draws a possible stream, one step at a time, and applies it to a view and
// to a naive model.
type history struct {
	t      *rapid.T
	stream *stream
	view   *rules.View
	naive  *naive
	next   int // for ids that are used once
	peers  []entry.Hash
	client []entry.Hash
	strict bool // claims for a ticket are of its generation, and for an ordinary one come one at a time, as those of peers do
}

const (
	historyPools = 2 // the second one is a named pool
	historySlots = 5
)

func newHistory(t *rapid.T) *history {
	view := newView()
	view.TracksIdle = true
	return &history{t: t, stream: newStream(), view: view, naive: newNaive()}
}

// step is something that may happen.
type step struct {
	name   string
	weight int
	do     func()
}

// writes returns the steps of peers that keep to the rules, though their views may be
// behind.
func (h *history) writes() []step {
	return []step{
		{"register", 4, h.register},
		{"delete", 1, h.delete},
		{"session", 4, h.session},
		{"end session", 1, h.endSession},
		{"ticket", 8, h.ticket},
		{"ticket again", 2, h.ticketAgain},
		{"end ticket", 2, h.endTicket},
		{"claim", 12, h.claim},
		{"renew", 3, h.renew},
		{"purge", 7, h.purge},
		{"barrier", 1, h.barrier},
	}
}

func (h *history) oneOf(steps []step) {
	var bag []int
	for i, s := range steps {
		bag = append(bag, slices.Repeat([]int{i}, s.weight)...)
	}
	s := steps[rapid.SampledFrom(bag).Draw(h.t, "step")]
	h.t.Log(s.name)
	s.do()
}

func (h *history) pool() entry.Hash {
	return poolID(rapid.IntRange(0, historyPools-1).Draw(h.t, "pool"))
}

func (h *history) fresh() int { h.next++; return h.next }

func (h *history) randomly(of int) int { return rapid.IntRange(0, of-1).Draw(h.t, "one of") }

func (h *history) chance(of int) bool { return rapid.IntRange(1, of).Draw(h.t, "chance") == of }

func (h *history) write(e entry.Entry) { h.applied(h.stream.write(e)) }

func (h *history) applied(e *entry.Entry) {
	h.t.Log(text(e))
	now := h.stream.instant()
	age := rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Millisecond, 300 * time.Millisecond}).Draw(h.t, "age")
	h.view.Apply(e, age, now)
	h.naive.apply(*e, age, now)
	if e.Key.Kind == entry.Slot && !slices.ContainsFunc(h.view.Touched(), func(p *rules.Pool) bool { return p.ID == e.Key.Pool }) {
		h.t.Error("a pool has changed, but Touched does not return it")
	}
}

// text formats an entry for the log of a failure.
func text(e *entry.Entry) string {
	what := fmt.Sprintf("%d over %d at %s: %s ", e.Revision, e.Previous, e.Time.Format("05.000"), e.Key)
	switch {
	case e.Marker:
		return what + "free"
	case e.Corrupt != nil:
		return what + "corrupt"
	case e.Key.Kind == entry.Config:
		return what + fmt.Sprintf("%+v", e.Config)
	case e.Key.Kind == entry.Slot:
		return what + fmt.Sprintf("generation %d, ticket %d, fence %d, session %.4s", e.Slot.Generation, e.Slot.Ticket, e.Slot.Fence, e.Slot.Session)
	case e.Key.Kind == entry.Ticket:
		return what + fmt.Sprintf("generation %d, place %d, peer %.4s, enqueued %v, spent %v", e.Ticket.Generation, e.Ticket.Place, e.Ticket.Peer, e.Ticket.Enqueued(), e.Ticket.Spent)
	}
	return what
}

// register registers a pool, changes its count, or opens or closes a name.
func (h *history) register() {
	pool := h.pool()
	e := config(pool, rapid.IntRange(0, historySlots).Draw(h.t, "count"), h.naive.config(pool).Generation)
	e.Config.Terms, e.Config.Closing = h.naive.config(pool).Terms, h.chance(6)
	if e.Config.Generation == 0 || h.chance(10) {
		e.Config.Generation = uint64(h.fresh())
	}
	e.Config.Out, e.Config.OutOrigin = h.naive.config(pool).Out, h.naive.config(pool).OutOrigin
	if h.chance(3) {
		out := entry.Out{Position: rapid.IntRange(entry.WholePool, historySlots).Draw(h.t, "out")}
		if e.Config = e.Config.WithIn(out.Position); h.chance(2) {
			e.Config = e.Config.WithOut(out, originID(rapid.IntRange(0, 1).Draw(h.t, "origin")))
		}
	}
	if pool == poolID(1) {
		e.Config.Terms = entry.Terms{Name: "x", Limit: max(1, e.Config.Count)}
	}
	h.write(e)
}

func (h *history) delete() {
	h.write(marker(rules.ConfigKey(h.pool())))
}

func (h *history) session() {
	list, kind := &h.peers, entry.SessionPeer
	if h.chance(2) {
		list, kind = &h.client, entry.SessionClient
	}
	if len(*list) == 0 || len(*list) < 3 && h.chance(2) {
		*list = append(*list, sessionID(h.fresh()))
	}
	e := session(rapid.SampledFrom(*list).Draw(h.t, "session"), kind, 15*time.Second)
	e.Session.Origin = originID(len(h.client))
	h.write(e)
}

func (h *history) endSession() {
	list := &h.peers
	if h.chance(2) {
		list = &h.client
	}
	if len(*list) > 0 {
		i := rapid.IntRange(0, len(*list)-1).Draw(h.t, "session")
		h.write(marker(rules.SessionKey((*list)[i])))
		*list = slices.Delete(*list, i, i+1)
	}
}

// anySession draws a session from list, mostly one that is alive, or none.
func (h *history) anySession(list []entry.Hash) entry.Hash {
	if len(list) == 0 || h.chance(12) {
		return sessionID(rapid.IntRange(1, h.next+1).Draw(h.t, "id"))
	}
	return rapid.SampledFrom(list).Draw(h.t, "session")
}

func (h *history) generation(pool entry.Hash) uint64 {
	if h.chance(15) {
		return uint64(rapid.IntRange(1, h.next+1).Draw(h.t, "generation"))
	}
	return max(1, h.naive.config(pool).Generation)
}

// ticket writes a peer's ticket, one of a client session, an enqueued one, or one that is kept
// for a repeat.
func (h *history) ticket() {
	pool := h.pool()
	e := ticket(ticketKey(pool, h.anySession(h.peers), rapid.IntRange(0, 1).Draw(h.t, "n")), leaseID(h.fresh()), h.generation(pool))
	if h.chance(2) {
		e.Ticket.Session = h.anySession(h.client)
	}
	switch h.randomly(3) {
	case 0:
		e.Key.Session, e.Key.N, e.Ticket.Session = h.anySession(h.client), 0, entry.Hash{}
		e.Ticket.Peer, e.Ticket.TTL = h.anySession(h.peers), entry.Span(10*time.Second)
	case 1:
		e.Ticket.Request, e.Ticket.Grace, e.Ticket.Away = requestID(h.fresh()), entry.Span(10*time.Second), h.chance(3)
	}
	if !h.stream.taken(e.Key) {
		h.write(e)
	}
}

// ticketAgain writes a ticket again that is enqueued or kept for a repeat: it keeps its place, may
// get another peer, and may become spent, or its callers leave or come back.
func (h *history) ticketAgain() {
	if e, ok := h.any(entry.Ticket, func(e entry.Entry) bool { return e.Ticket.Enqueued() || e.Ticket.Grace > 0 }); ok {
		e.Ticket.Place, e.Ticket.Peer = place(e), h.anySession(h.peers)
		if e.Ticket.Grace > 0 {
			e.Ticket.Away = h.chance(2)
		} else {
			e.Ticket.Spent = e.Ticket.Spent || h.chance(4)
		}
		h.write(entry.Entry{Key: e.Key, Ticket: e.Ticket})
	}
}

// endTicket ends a wait, or purges the ticket of a claim that was granted.
func (h *history) endTicket() {
	if e, ok := h.any(entry.Ticket, func(e entry.Entry) bool { return !h.pending(e) }); ok {
		h.write(marker(e.Key))
	}
}

// pending reports whether a ticket is named by a claim that is to be withdrawn.
func (h *history) pending(t entry.Entry) bool {
	return len(h.naive.of(t.Key.Pool, entry.Slot, func(e entry.Entry) bool {
		return valid(e) && e.Slot.Ticket == place(t) && !h.naive.good(e)
	})) > 0
}

// any draws an entry of the keys that have a value.
func (h *history) any(kind entry.Kind, is func(entry.Entry) bool) (entry.Entry, bool) {
	var found []entry.Entry
	for _, e := range h.stream.last {
		if e.Key.Kind == kind && !e.Marker && is(e) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return entry.Entry{}, false
	}
	slices.SortFunc(found, func(x, y entry.Entry) int { return cmp.Compare(x.Revision, y.Revision) })
	return rapid.SampledFrom(found).Draw(h.t, "of"), true
}

// claim writes a claim, mostly of the right position, with a ticket of the line or
// without.
func (h *history) claim() {
	pool := h.pool()
	v := entry.SlotValue{
		Lease: leaseID(h.fresh()), Generation: h.generation(pool), Claimer: h.anySession(h.peers),
		TTL: entry.Span(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(h.t, "ttl")),
	}
	line := h.naive.of(pool, entry.Ticket, valid)
	if able := h.naive.able(pool); len(able) > 0 && !h.chance(6) {
		line = able
	}
	if h.strict {
		line = slices.DeleteFunc(slices.Clone(line), h.claimedBefore)
	}
	if len(line) > 0 && !h.chance(4) {
		t := rapid.SampledFrom(line).Draw(h.t, "ticket")
		v.Ticket, v.Lease, v.Claimer = place(t), t.Ticket.Lease, cmp.Or(t.Ticket.Peer, t.Key.Session)
		if h.strict {
			v.Generation, v.Unseen = t.Ticket.Generation, t.Ticket.Enqueued()
		}
		if slices.Contains(h.client, t.Key.Session) {
			v.Session = t.Key.Session
		}
	} else if h.chance(3) {
		v.Session = h.anySession(h.client)
	}
	if h.chance(3) {
		v.Request = requestID(rapid.IntRange(0, 3).Draw(h.t, "request key"))
	}
	position, ok := h.naive.choose(pool, v.Ticket, &rules.InFlight{})
	if !ok || h.chance(4) {
		position = rapid.IntRange(0, historySlots).Draw(h.t, "position")
	}
	if e := claim(position, v); !h.stream.taken(rules.SlotKey(pool, position)) {
		e.Key.Pool = pool
		h.write(e)
	}
}

// claimedBefore reports whether a slot names a ticket, unless it is an enqueued one, for which
// several peers may claim. The claims of a ticket's own peer follow one another.
func (h *history) claimedBefore(t entry.Entry) bool {
	return !t.Ticket.Enqueued() && len(h.naive.of(t.Key.Pool, entry.Slot, func(e entry.Entry) bool {
		return valid(e) && e.Slot.Ticket == place(t)
	})) > 0
}

func (h *history) renew() {
	if e, ok := h.any(entry.Slot, func(e entry.Entry) bool { return e.Corrupt == nil && h.naive.good(e) }); ok {
		e.Slot.Fence = cmp.Or(e.Slot.Fence, e.Revision)
		h.write(entry.Entry{Key: e.Key, Slot: e.Slot})
	}
}

// purge ends a lease or withdraws a claim. The ticket that a lease was granted for is
// purged before that, or marked as spent if it is an enqueued one.
func (h *history) purge() {
	e, ok := h.any(entry.Slot, func(entry.Entry) bool { return true })
	if !ok {
		return
	}
	m := marker(e.Key)
	if m.Author = uint64(h.fresh()); h.naive.good(e) && !h.chance(4) {
		if t, ok := h.naive.ticketAt(e.Key.Pool, e.Slot.Ticket); ok {
			if t.Ticket.Place, t.Ticket.Spent = e.Slot.Ticket, true; t.Ticket.Enqueued() && h.chance(2) {
				h.write(entry.Entry{Key: t.Key, Ticket: t.Ticket})
			} else {
				h.write(marker(t.Key))
			}
		}
	}
	h.write(m)
}

func (h *history) barrier() {
	h.write(entry.Entry{Key: barrierKey(h.anySession(h.peers))})
}
