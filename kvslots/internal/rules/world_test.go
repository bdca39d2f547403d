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

// history draws a stream that could have happened, one entry or one passage of
// time at a time, and feeds it to the world and to the naive one.
type history struct {
	t      *rapid.T
	stream *stream
	world  *rules.World
	naive  *naive
	next   int // for ids that are used once
	alive  []entry.Hash
	from   int // the number of the first pool
}

const (
	historyPools = 2
	historySlots = 5
)

func TestWorldAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, stream: newStream(), world: rules.New(), naive: newNaive(), from: 1}
		h.stream.mixed = true
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			h.step()
			h.check()
		}
	})
}

// historyStep is something that may happen.
type historyStep struct {
	name   string
	weight int
	do     func()
}

func (h *history) step() {
	h.oneOf([]historyStep{
		{"register", 4, h.register},
		{"delete", 1, h.delete},
		{"session", 3, h.session},
		{"end session", 1, h.endSession},
		{"ticket", 6, h.ticket},
		{"end ticket", 2, h.endTicket},
		{"claim", 10, h.claim},
		{"renew", 3, h.renew},
		{"purge", 6, h.purge},
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

func (h *history) oneOf(steps []historyStep) {
	var bag []int
	for i, s := range steps {
		bag = append(bag, slices.Repeat([]int{i}, s.weight)...)
	}
	s := steps[rapid.SampledFrom(bag).Draw(h.t, "step")]
	h.t.Log(s.name)
	s.do()
}

func (h *history) pool() entry.Hash {
	return poolID(h.from - 1 + rapid.IntRange(1, historyPools).Draw(h.t, "pool"))
}

func (h *history) fresh() int { h.next++; return h.next }

// write writes over whatever is there.
func (h *history) write(e entry.Entry) {
	revision, ok := h.stream.write(e, h.stream.revision(e.Key))
	if !ok {
		h.t.Fatal("not written")
	}
	h.applied(h.stream.log[revision-1])
}

func (h *history) applied(e entry.Entry) {
	h.t.Log(text(e))
	now := h.stream.instant()
	age := rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Millisecond, 300 * time.Millisecond}).Draw(h.t, "age")
	h.world.Settle(now)
	h.world.Apply(e, now, age)
	h.naive.apply(e, now, age)
	if e.Key.Kind == entry.Slot && !slices.ContainsFunc(h.world.Touched(), func(p *rules.Pool) bool { return p.ID == e.Key.Pool }) {
		h.t.Error("a pool has changed, and is not said to be touched")
	}
}

// text is an entry for people.
func text(e entry.Entry) string {
	what := fmt.Sprintf("%d over %d at %s: %s", e.Revision, e.Previous, e.Time.Format("05.000"), e.Key)
	switch {
	case e.Marker:
		return what + fmt.Sprintf(" free, ticket %d", e.Ticket)
	case e.Corrupt != nil:
		return what + " corrupt"
	case e.Key.Kind == entry.Config:
		return what + fmt.Sprintf(" %+v", e.Config)
	case e.Key.Kind == entry.Slot:
		return what + fmt.Sprintf(" lease %.4s, ticket %d, incarnation %d, fence %d, session %.4s", e.Slot.Lease, e.Slot.Ticket, e.Slot.Incarnation, e.Slot.Fence, e.Slot.Session)
	case e.Key.Kind == entry.Ticket:
		return what + fmt.Sprintf(" incarnation %d, spent %v, peer %.4s", e.Wait.Incarnation, e.Wait.Spent, e.Wait.Peer)
	}
	return what
}

func (h *history) register() {
	pool := h.pool()
	e := config(pool, rapid.IntRange(0, historySlots).Draw(h.t, "count"), h.naive.config(pool).Incarnation)
	if e.Config.Incarnation == 0 {
		e.Config.Incarnation = uint64(h.fresh())
	}
	h.write(e)
}

func (h *history) delete() {
	pool := h.pool()
	if h.naive.registered(pool) {
		h.write(deleted(pool, h.naive.config(pool).Incarnation))
	}
}

func (h *history) session() {
	if len(h.alive) == 0 || (len(h.alive) < 3 && rapid.Bool().Draw(h.t, "new")) {
		h.alive = append(h.alive, sessionID(h.fresh()))
	}
	idle := rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second}).Draw(h.t, "idle")
	h.write(alive(rapid.SampledFrom(h.alive).Draw(h.t, "session"), idle))
}

func (h *history) endSession() {
	if len(h.alive) > 0 {
		i := rapid.IntRange(0, len(h.alive)-1).Draw(h.t, "session")
		h.write(marker(sessionKey(h.alive[i])))
		h.alive = slices.Delete(h.alive, i, i+1)
	}
}

// ticket draws one for a session that may have ended meanwhile.
func (h *history) ticket() {
	pool, session := h.pool(), sessionID(rapid.IntRange(0, h.next).Draw(h.t, "id"))
	if len(h.alive) > 0 && rapid.IntRange(0, 9).Draw(h.t, "dead") > 0 {
		session = rapid.SampledFrom(h.alive).Draw(h.t, "session")
	}
	key := ticketKey(pool, session, rapid.IntRange(0, 2).Draw(h.t, "n"))
	if !h.stream.taken(key) {
		h.write(ticket(key, leaseID(h.fresh()), max(1, h.naive.config(pool).Incarnation)))
	}
}

func (h *history) endTicket() {
	if e, ok := h.any(entry.Ticket, func(entry.Entry) bool { return true }); ok {
		h.write(marker(e.Key))
	}
}

// any draws one of the keys that have a value.
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

// claim claims the right position more often than not, with somebody's ticket or
// with none.
func (h *history) claim() {
	pool := h.pool()
	position, ok := h.naive.choose(pool, 0, &rules.InFlight{}, h.naive.config(pool).Count, h.stream.instant())
	if !ok || rapid.IntRange(0, 2).Draw(h.t, "other") == 0 {
		position = rapid.IntRange(0, historySlots).Draw(h.t, "position")
	}
	if h.stream.taken(slotKey(pool, position)) {
		return
	}
	v := entry.SlotValue{
		Lease: leaseID(h.fresh()), Incarnation: max(1, h.naive.config(pool).Incarnation),
		Claimer: sessionID(rapid.IntRange(0, h.next).Draw(h.t, "claimer")),
		TTL:     entry.Span(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(h.t, "ttl")),
	}
	if rapid.IntRange(0, 9).Draw(h.t, "old") == 0 {
		v.Incarnation = uint64(rapid.IntRange(1, h.next).Draw(h.t, "incarnation"))
	}
	if line := h.naive.standing(pool); len(line) > 0 && v.Incarnation == line[0].Wait.Incarnation && rapid.IntRange(0, 3).Draw(h.t, "ticket") > 0 {
		t := line[rapid.IntRange(0, min(1, len(line)-1)).Draw(h.t, "which")]
		v.Ticket, v.Lease, v.Claimer = t.Revision, t.Wait.Lease, t.Wait.Session
	}
	h.write(claim(slotKey(pool, position), v))
}

func (h *history) renew() {
	if e, ok := h.any(entry.Slot, func(e entry.Entry) bool { return e.Corrupt == nil }); ok {
		if e.Slot.Fence == 0 {
			e.Slot.Fence = e.Revision
		}
		h.write(claim(e.Key, e.Slot))
	}
}

// purge ends a lease, or takes a claim back.
func (h *history) purge() {
	e, ok := h.any(entry.Slot, func(entry.Entry) bool { return true })
	if !ok {
		return
	}
	m := marker(e.Key)
	if h.naive.verdictOf(e) != rules.Void && rapid.Bool().Draw(h.t, "named") {
		m.Ticket = e.Slot.Ticket
	}
	h.write(m)
}

func (h *history) barrier() {
	h.applied(h.stream.put(entry.Entry{Key: barrierKey(sessionID(rapid.IntRange(0, h.next).Draw(h.t, "id")))}))
}

// serverMarker is of something that has outlived its TTL.
func (h *history) serverMarker() {
	kind := rapid.SampledFrom([]entry.Kind{entry.Slot, entry.Ticket, entry.Config}).Draw(h.t, "kind")
	if e, ok := h.any(kind, func(e entry.Entry) bool { return kind != entry.Config || e.Config.Deleted }); ok {
		h.applied(h.stream.put(marker(e.Key)))
	}
}

// corrupt is somebody else's hand in the bucket.
func (h *history) corrupt() {
	pool, session := h.pool(), sessionID(rapid.IntRange(0, h.next).Draw(h.t, "id"))
	h.write(corrupt(rapid.SampledFrom([]entry.Key{
		{}, configKey(pool), slotKey(pool, 1), slotKey(pool, 7), ticketKey(pool, session, 0), sessionKey(session), barrierKey(session),
	}).Draw(h.t, "key")))
}

func (h *history) time() {
	h.stream.now += rapid.SampledFrom([]time.Duration{
		time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, rules.StallTime, time.Minute, rules.MarkerTTL + time.Second,
	}).Draw(h.t, "passes")
	h.world.Settle(h.stream.instant())
}

func (h *history) passOver() {
	h.world.PassOver(h.stream.instant())
	h.naive.passOver(h.stream.instant())
}

// promise is a peer's knowledge of when a lease ends that it granted.
func (h *history) promise() {
	e, ok := h.any(entry.Slot, func(e entry.Entry) bool { return e.Corrupt == nil })
	if !ok {
		return
	}
	at := h.stream.instant().Add(time.Second)
	s := h.world.Pool(e.Key.Pool).Slot(e.Key.N)
	h.world.EndAt(s, e.Revision-1, 1) // it has changed since: to be ignored
	h.world.EndAt(s, e.Revision, at)
	h.naive.due[e.Key], h.naive.ends[e.Key] = at, at
	if s.Ended(at-1) || !s.Ended(at) {
		h.t.Error("a lease does not end when it was promised to")
	}
}

func (h *history) postpone() {
	h.world.Postpone(h.stream.instant())
	for key, e := range h.naive.last {
		if key.Kind == entry.Session && valid(e) {
			h.naive.due[key] = h.stream.instant().Add(e.Session.Left())
		}
	}
}

func (h *history) due() {
	const retry = 300 * time.Millisecond
	now := h.stream.instant()
	var want []rules.Due
	for key, at := range h.naive.due {
		if at <= now {
			e := h.naive.last[key]
			want = append(want, rules.Due{Key: key, Revision: e.Revision, Ticket: e.Slot.Ticket})
			h.naive.due[key] = now.Add(retry)
		}
	}
	var got []rules.Due
	for limit := rapid.IntRange(1, 3).Draw(h.t, "limit"); ; {
		found := h.world.Due(now, retry, limit)
		if len(found) > limit {
			h.t.Fatalf("%d are due, the limit is %d", len(found), limit)
		}
		if got = append(got, found...); len(found) == 0 {
			break
		}
	}
	byRevision := func(x, y rules.Due) int { return cmp.Compare(x.Revision, y.Revision) }
	slices.SortFunc(want, byRevision)
	slices.SortFunc(got, byRevision)
	if !slices.Equal(got, want) {
		h.t.Fatalf("due: got %+v, want %+v", got, want)
	}
}

func (h *history) check() {
	if !h.world.Exact() {
		h.t.Fatal("nothing was skipped, and the view is not exact")
	}
	if h.world.Revision != h.stream.sequence {
		h.t.Fatalf("revision %d of %d", h.world.Revision, h.stream.sequence)
	}
	h.checkNextDue()
	for i := range historyPools {
		if p := h.world.Pool(poolID(h.from + i)); p != nil {
			h.checkPool(p)
			h.checkSlots(p)
			h.checkLine(p)
			h.checkChoice(p, p.Count())
		} else {
			h.checkNoPool(poolID(h.from + i))
		}
	}
}

func (h *history) checkNextDue() {
	at, ok := h.world.NextDue()
	if ok != (len(h.naive.due) > 0) {
		h.t.Fatalf("something is due: %v; want %v", ok, h.naive.due)
	}
	for key, want := range h.naive.due {
		if want < at {
			h.t.Fatalf("%v is due at %d, before %d", key, want, at)
		}
	}
}

func (h *history) checkNoPool(id entry.Hash) {
	for key, e := range h.naive.last {
		if key.Pool == id && !e.Marker && !(key.Kind == entry.Ticket && h.naive.dropped[e.Revision]) && !(key.Kind == entry.Ticket && e.Corrupt != nil) {
			h.t.Fatalf("the pool is forgotten, and there is %+v", e)
		}
	}
}

func (h *history) checkPool(p *rules.Pool) {
	c := h.naive.config(p.ID)
	if p.Registered() != (c.Incarnation != 0) || p.Count() != c.Count || p.Incarnation() != c.Incarnation {
		h.t.Fatalf("registered %v, count %d, incarnation %d; want %+v", p.Registered(), p.Count(), p.Incarnation(), c)
	}
	if got, want := p.InUse(), len(h.naive.live(p.ID)); got != want {
		h.t.Fatalf("in use: got %d, want %d", got, want)
	}
	if got, want := p.Full(), len(h.naive.live(p.ID)) >= c.Count; got != want {
		h.t.Fatalf("full: got %v, want %v", got, want)
	}
	doubt := slices.ContainsFunc(h.naive.live(p.ID), func(e entry.Entry) bool { return h.naive.inDoubt(e, h.stream.instant()) })
	if p.InDoubt(h.stream.instant()) != doubt {
		h.t.Fatalf("in doubt: got %v, want %v", !doubt, doubt)
	}
	h.world.Settle(h.stream.instant())
	if got, known := h.world.Read(p).InUse(); known == doubt || (known && got != p.InUse()) {
		h.t.Fatalf("read: %d leases, known: %v; want %d, %v", got, known, p.InUse(), !doubt)
	}
}

func (h *history) checkSlots(p *rules.Pool) {
	var taken []entry.Entry
	p.Slots(func(s *rules.Slot) bool {
		e := h.naive.last[slotKey(p.ID, s.Position)]
		taken = append(taken, e)
		if s.Revision != e.Revision || s.Value != e.Slot || s.Live() != h.naive.lives(e) || s.Stale() == s.Live() {
			h.t.Fatalf("slot %d: %+v; want %+v", s.Position, s, e)
		}
		if got, want := s.Verdict(), h.naive.verdictOf(e); got != want {
			h.t.Fatalf("verdict on %+v: got %d, want %d", e, got, want)
		}
		if fence := max(e.Slot.Fence, h.first(e)); s.Fence != fence {
			h.t.Fatalf("fence of %+v: got %d, want %d", e, s.Fence, fence)
		}
		return true
	})
	if want := h.naive.slots(p.ID); !slices.Equal(taken, want) {
		h.t.Fatalf("slots: got %+v, want %+v", taken, want)
	}
	for position := range historySlots + 1 {
		h.checkMarker(p.Slot(position), h.stream.last[slotKey(p.ID, position)])
	}
	for i := range h.next + 1 {
		h.checkLease(p, leaseID(i))
	}
}

func (h *history) first(e entry.Entry) uint64 {
	if valid(e) && e.Slot.Fence == 0 {
		return e.Revision
	}
	return 0
}

// checkMarker holds that a marker is known for as long as it is in the bucket,
// however long that is, and not for ever.
func (h *history) checkMarker(s *rules.Slot, e entry.Entry) {
	age := h.world.Time.Sub(e.Time)
	switch {
	case !e.Marker:
	case age <= e.Life && (s == nil || s.Revision != e.Revision):
		h.t.Fatalf("the marker %+v is forgotten too soon: %+v", e, s)
	case age > 2*e.Life+2*time.Minute && s != nil && s.Revision != 0:
		h.t.Logf("the marker %+v is not forgotten yet", e)
	}
}

func (h *history) checkLease(p *rules.Pool, lease entry.Hash) {
	var want uint64
	for _, e := range h.naive.live(p.ID) {
		if e.Slot.Lease == lease && want == 0 {
			want = e.Revision
		}
	}
	var got uint64
	if s := p.Lease(lease); s != nil {
		got = s.Revision
	}
	if got != want {
		h.t.Fatalf("lease: got %d, want %d", got, want)
	}
}

func (h *history) checkLine(p *rules.Pool) {
	if got, want := p.Waiting(), len(h.naive.standing(p.ID)); got != want {
		h.t.Fatalf("waiting: got %d, want %d", got, want)
	}
	var got, want []uint64
	for _, t := range p.Able() {
		got = append(got, t.Revision)
	}
	for _, e := range h.naive.able(p.ID) {
		want = append(want, e.Revision)
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("able: got %v, want %v", got, want)
	}
	p.Tickets(func(t *rules.Ticket) bool {
		if e := h.naive.last[t.Key]; e.Revision != t.Revision || p.Ticket(t.Revision) != t || p.TicketAt(t.Key) != t || h.naive.dropped[t.Revision] {
			h.t.Fatalf("ticket %+v, want %+v", t, e)
		}
		return true
	})
}

func (h *history) checkChoice(p *rules.Pool, count int) {
	flight := rules.InFlight{Claims: map[int]uint64{}}
	for range rapid.IntRange(0, 2).Draw(h.t, "claims in flight") {
		flight.Claims[rapid.IntRange(0, historySlots).Draw(h.t, "position")] = h.drawTicket(p.ID)
	}
	flight.Joining = rapid.SampledFrom([]int{0, 0, 1}).Draw(h.t, "joining")
	for _, revision := range []uint64{0, h.drawTicket(p.ID)} {
		position, ok := p.Choose(p.Ticket(revision), &flight, count)
		wantPosition, wantOK := h.naive.choose(p.ID, revision, &flight, count, h.stream.instant())
		if ok != wantOK || (ok && position != wantPosition) {
			h.t.Fatalf("choose for %d in %+v: got %d %v, want %d %v", revision, flight, position, ok, wantPosition, wantOK)
		}
	}
}

// drawTicket draws a place in the line, or 0.
func (h *history) drawTicket(pool entry.Hash) uint64 {
	line := h.naive.standing(pool)
	i := rapid.IntRange(0, len(line)).Draw(h.t, "ticket")
	if i == len(line) {
		return 0
	}
	return line[i].Revision
}
