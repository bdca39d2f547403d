package rules_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func TestViewAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		steps := append(h.writes(),
			step{"server's marker", 1, h.serverMarker},
			step{"corrupt", 1, h.corrupt},
			step{"time", 5, h.time},
			step{"pass over", 3, h.passOver},
		)
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			h.oneOf(steps)
			h.check()
		}
	})
}

// serverMarker writes the server's marker of a value whose TTL is over.
func (h *history) serverMarker() {
	kind := rapid.SampledFrom([]entry.Kind{entry.Slot, entry.Ticket}).Draw(h.t, "kind")
	if e, ok := h.any(kind, func(e entry.Entry) bool { return true }); ok {
		h.applied(h.stream.put(marker(e.Key)))
	}
}

// corrupt writes a corrupt value, as another program might.
func (h *history) corrupt() {
	pool, id := h.pool(), h.anySession(h.peers)
	h.write(corrupt(rapid.SampledFrom([]entry.Key{
		{}, rules.ConfigKey(pool), rules.SlotKey(pool, 1), rules.SlotKey(pool, 7), ticketKey(pool, id, 0), rules.SessionKey(id), barrierKey(id),
	}).Draw(h.t, "key")))
}

func (h *history) time() {
	h.stream.now += rapid.SampledFrom([]time.Duration{
		time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, rules.StallTime, time.Minute, rules.MarkerTTL + 11*time.Second, time.Hour,
	}).Draw(h.t, "passes")
	h.view.Forget(h.stream.instant())
}

func (h *history) passOver() {
	h.view.PassOver(h.stream.instant())
	h.naive.passOver(h.stream.instant())
}

func (h *history) check() {
	if h.view.Revision != h.stream.sequence {
		h.t.Fatalf("revision %d of %d", h.view.Revision, h.stream.sequence)
	}
	for key := range h.stream.last {
		h.checkKey(key)
	}
	clients, used := 0, 0
	for _, e := range h.naive.last {
		if valid(e) && e.Key.Kind == entry.Session && e.Session.Kind == entry.SessionClient {
			clients++
		}
	}
	for i := range historyPools {
		used += h.checkPool(poolID(i))
	}
	if h.view.Clients != clients || h.view.InNames.Pools != used {
		h.t.Fatalf("%d clients, %d names in use; want %d, %d", h.view.Clients, h.view.InNames.Pools, clients, used)
	}
	h.checkTotals()
}

// checkKey checks that the view knows a key's revision: that of a marker for as long as
// the marker is in the bucket, but not for ever.
func (h *history) checkKey(key entry.Key) {
	e := h.stream.last[key]
	revision, taken := h.view.Latest(key)
	if key.Kind == entry.Foreign || key.Kind == entry.Barrier || key.Kind == entry.Session && e.Corrupt != nil {
		return
	}
	gone := e.Marker && h.stream.time().Sub(e.Time) > e.TTL
	if taken != h.stream.taken(key) || revision != e.Revision && !(gone && revision == 0) {
		h.t.Fatalf("%s stands at %d, taken: %v; want %d, %v", key, revision, taken, e.Revision, !taken)
	}
	if e.Marker && revision != 0 && h.stream.time().Sub(e.Time) > e.TTL+11*time.Second {
		h.t.Fatalf("the marker of %s at %d is not forgotten", key, revision)
	}
}

// checkPool returns 1 for a named pool in use.
func (h *history) checkPool(id entry.Hash) int {
	p, c, live := h.view.Pool(id), h.naive.config(id), h.naive.live(id)
	if p == nil {
		if c.Generation != 0 || len(h.naive.of(id, entry.Slot, valid))+len(h.naive.of(id, entry.Ticket, valid)) > 0 {
			h.t.Fatal("the view forgot a pool that has keys")
		}
		return 0
	}
	now := h.stream.instant()
	if p.Exists() != (c.Generation != 0) || p.Size() != c.Count || p.Closing() != c.Closing || p.Generation() != c.Generation || p.Terms() != c.Terms {
		h.t.Fatalf("registered %v, count %d, generation %d; want %+v", p.Exists(), p.Count(), p.Generation(), c)
	}
	doubt := slices.ContainsFunc(live, func(e entry.Entry) bool { return h.naive.inDoubt(e, now) })
	if p.InUse() != len(live) || p.Full() != (len(h.naive.busy(id)) >= h.naive.count(id)) || p.InDoubt(now) != doubt {
		h.t.Fatalf("in use %d, full %v, in doubt %v; want %d of %d, %v", p.InUse(), p.Full(), p.InDoubt(now), len(live), c.Count, doubt)
	}
	h.checkSlots(p)
	h.checkLine(p)
	h.checkChoice(p)
	return h.checkUse(p, c, len(live) > 0 || len(h.naive.standing(id)) > 0 || len(c.Out) > 0)
}

func (h *history) checkUse(p *rules.Pool, c entry.ConfigValue, used bool) int {
	registered := c.Generation != 0
	if _, idle := p.IdleSince(); idle != (registered && !used && !c.Closing) || slices.Contains(h.view.Closings(), p) != c.Closing {
		h.t.Fatalf("registered %v, in use %v, closing %v, but idle: %v", registered, used, c.Closing, idle)
	}
	if used && c.Named() {
		return 1
	}
	return 0
}

func (h *history) checkSlots(p *rules.Pool) {
	p.Slots(func(s *rules.Slot) bool {
		e := h.naive.last[rules.SlotKey(p.ID, s.Position)]
		if !reflect.DeepEqual(s.Value, e.Slot) || s.Live() != h.naive.lives(e) || s.Orphaned() == s.Live() {
			h.t.Fatalf("slot %d: %+v; want %+v", s.Position, s, e)
		}
		want, excluded := h.naive.good(e), h.naive.excluded[e.Revision]
		if s.Good() != want || s.Excluded() != excluded {
			h.t.Fatalf("slot %d: good %v, excluded %v; want %v, %v", s.Position, s.Good(), s.Excluded(), want, excluded)
		}
		if fence := e.Fence(); s.Fence != fence {
			h.t.Fatalf("slot %d: fence %d, want %d", s.Position, s.Fence, fence)
		}
		if found := p.Requested(e.Slot.Request); !e.Slot.Request.IsZero() && s.Live() && (found == nil || found.Value.Request != e.Slot.Request) {
			h.t.Fatalf("the slot of the request key of %+v is %+v", e, found)
		}
		if found := p.Lease(e.Slot.Lease, 0); s.Live() && (found == nil || found.Value.Lease != e.Slot.Lease) {
			h.t.Fatalf("the lease of slot %d is not found", s.Position)
		}
		return true
	})
}

func (h *history) checkLine(p *rules.Pool) {
	var got, want []uint64
	for _, t := range p.Able() {
		got = append(got, t.Place)
	}
	for _, e := range h.naive.able(p.ID) {
		want = append(want, place(e))
	}
	if standing := len(h.naive.standing(p.ID)); p.Waiting() != standing || !slices.Equal(got, want) {
		h.t.Fatalf("%d wait, able %v; want %d, %v", p.Waiting(), got, standing, want)
	}
	p.Tickets(func(t *rules.Ticket) bool {
		e := h.naive.last[t.Key]
		since, ok := t.TurnSince()
		if e.Revision != t.Revision || p.Ticket(t.Place) != t || p.TicketAt(t.Key) != t || t.Stands() != h.naive.stands(e) ||
			t.Served() || since != h.naive.turn[t.Revision] || ok != (since != 0) {
			h.t.Fatalf("ticket %+v, want %+v, its turn since %d", t, e, h.naive.turn[t.Revision])
		}
		return true
	})
}

func (h *history) checkChoice(p *rules.Pool) {
	flight := rules.InFlight{Claims: map[int]rules.Claim{}}
	for range rapid.IntRange(0, 2).Draw(h.t, "claims in flight") {
		flight.Claims[rapid.IntRange(0, historySlots).Draw(h.t, "position")] = rules.Claim{Place: h.drawPlace(p.ID)}
	}
	flight.Joining = rapid.SampledFrom([]int{0, 0, 1}).Draw(h.t, "joining")
	for _, at := range []uint64{0, h.drawPlace(p.ID)} {
		position, ok := p.Choose(p.Ticket(at), &flight)
		wantPosition, wantOK := h.naive.choose(p.ID, at, &flight)
		if ok != wantOK || ok && position != wantPosition {
			h.t.Fatalf("choose for %d in %+v: got %d %v, want %d %v", at, flight, position, ok, wantPosition, wantOK)
		}
	}
}

// drawPlace draws a place in the line, or 0.
func (h *history) drawPlace(pool entry.Hash) uint64 {
	line := h.naive.standing(pool)
	i := rapid.IntRange(0, len(line)).Draw(h.t, "ticket")
	if i == len(line) {
		return 0
	}
	return place(line[i])
}
