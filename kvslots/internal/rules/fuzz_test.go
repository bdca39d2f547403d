package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// decoder makes entries of bytes: any entry whatsoever, in any order, with any
// jump. Nobody has to have behaved for the world to hold together.
type decoder struct {
	bytes []byte
	world *rules.World
	now   rules.Instant
	at    time.Time
}

func (d *decoder) byte() byte {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return b
}

func (d *decoder) below(n int) int { return int(d.byte()) % n }

func (d *decoder) key() entry.Key {
	pool, session := poolID(d.below(2)), sessionID(d.below(3))
	return []entry.Key{
		configKey(pool), slotKey(pool, d.below(4)), slotKey(pool, 63+d.below(4)), ticketKey(pool, session, d.below(2)),
		sessionKey(session), barrierKey(session), {},
	}[d.below(7)]
}

func (d *decoder) entry() entry.Entry {
	d.at = d.at.Add(time.Duration(d.below(4)) * 400 * time.Millisecond * []time.Duration{0, 1, 1, 200}[d.below(4)])
	e := entry.Entry{Key: d.key(), Time: d.at, Revision: d.world.Revision + 1}
	if jump := d.byte(); jump > 200 {
		e.Revision += uint64(jump - 200)
	}
	e.Previous = e.Revision - min(e.Revision, uint64(d.byte()))
	lease, count, incarnation := leaseID(d.below(4)), d.below(6), 1+uint64(d.below(2))
	fence, ticketRevision := uint64(d.below(3)), e.Revision-min(e.Revision, uint64(d.below(9)))
	switch d.below(8) {
	case 0:
		e.Corrupt = errUnreadable
		return e
	case 1, 2:
		e.Marker, e.Ticket = true, ticketRevision
		return e
	}
	switch e.Key.Kind {
	case entry.Config:
		e.Config = entry.ConfigValue{Count: count, Incarnation: incarnation, Deleted: fence == 2}
	case entry.Slot:
		e.Slot = entry.SlotValue{
			Lease: lease, Incarnation: incarnation, Claimer: sessionID(d.below(3)), Ticket: ticketRevision,
			TTL: entry.Span(time.Second), Fence: e.Revision * (fence / 2),
		}
		if d.below(2) == 0 {
			e.Slot.Naming = d.naming()
			e.Slot.Incarnation = e.Slot.Terms()
		}
		if d.below(2) == 0 {
			e.Slot.Session = sessionID(d.below(3))
		}
	case entry.Ticket:
		e.Wait = entry.TicketValue{Session: sessionID(d.below(3)), Lease: lease, Incarnation: incarnation, Wait: entry.Span(time.Second)}
		if d.below(2) == 0 {
			e.Wait.Naming = d.naming()
			e.Wait.Incarnation = e.Wait.Terms()
			e.Wait.Spent = d.below(4) == 0
			if d.below(2) == 0 {
				e.Wait.Peer, e.Wait.TTL = sessionID(d.below(3)), entry.Span(time.Second)
			}
		}
	case entry.Session:
		e.Session = entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(time.Second)}
		if d.below(2) == 0 {
			e.Session.Kind, e.Session.Origin = entry.SessionClient, originID(d.below(2))
		}
	}
	return e
}

func (d *decoder) naming() entry.Naming {
	n := entry.Naming{Name: "x", Limit: 1 + d.below(3)}
	n.Lock = n.Limit == 1 && d.below(2) == 0
	return n
}

func (d *decoder) step(t *testing.T) {
	d.now = d.now.Add(time.Duration(d.below(8)) * 150 * time.Millisecond)
	w := d.world
	switch d.below(12) {
	case 0:
		w.PassOver(d.now)
	case 1:
		w.Settle(d.now)
	case 2:
		w.Reached(w.Revision-min(w.Revision, uint64(d.byte())), d.now)
	case 3:
		w.Due(d.now, time.Second, 3)
	case 4:
		w.Postpone(d.now)
	case 5:
		w.Rebase(d.at, d.now)
	case 6:
		if p := w.Pool(poolID(d.below(2))); p != nil {
			wantReading(t, w, p)
			w.AbsentConfig(p)
			if s := p.Slot(d.below(4)); s != nil {
				w.Absent(s, uint64(d.byte()))
				w.EndAt(s, s.Revision, d.now.Add(time.Second))
			}
		}
	default:
		w.Apply(d.entry(), d.now, time.Duration(d.below(3))*time.Second)
	}
}

func FuzzWorld(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a pool with count and leases, and what comes of it when nobody behaves"))
	for seed := range byte(16) {
		text := make([]byte, 600)
		for i := range text {
			text[i] = byte(i*i*7+i*int(seed)*13) ^ byte(i>>3)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &decoder{bytes: text[:min(len(text), 4000)], world: rules.New(), at: time.Unix(1_000_000, 0)}
		for len(d.bytes) > 0 {
			d.step(t)
			for i := range 2 {
				if p := d.world.Pool(poolID(i)); p != nil {
					wantWhole(t, d.world, p, d.now)
				}
			}
			wantCounts(t, d.world)
		}
	})
}

// wantWhole holds what is derived against what it is derived from.
func wantWhole(t *testing.T, w *rules.World, p *rules.Pool, now rules.Instant) {
	t.Helper()
	live := map[int]bool{}
	p.Slots(func(s *rules.Slot) bool {
		if s.Live() {
			live[s.Position] = true
			if found := p.Lease(s.Value.Lease); found == nil || found.Value.Lease != s.Value.Lease {
				t.Fatalf("the lease of slot %d is not found", s.Position)
			}
		}
		if v := s.Verdict(); v < rules.Open || v > rules.Lost || (v == rules.Open && w.Exact()) {
			t.Fatalf("slot %d: verdict %d, exact: %v", s.Position, v, w.Exact())
		}
		if s.Live() == s.Stale() || s.Revision > w.Revision {
			t.Fatalf("slot %d: %+v", s.Position, s)
		}
		return true
	})
	if p.InUse() != len(live) || p.Full() != (len(live) >= p.Count()) {
		t.Fatalf("in use: %d, full: %v; want %v of %d", p.InUse(), p.Full(), live, p.Count())
	}
	wantLine(t, p)
	if position, ok := p.Choose(nil, &rules.InFlight{}, p.Count()); ok && (live[position] || position >= p.Count() || p.Full() || p.Disputed()) {
		t.Fatalf("position %d chosen of %v of %d", position, live, p.Count())
	}
	if p.InDoubt(now) && len(live) == 0 {
		t.Fatal("in doubt about nothing")
	}
}

// wantCounts holds the clients that are counted against those that are there.
func wantCounts(t *testing.T, w *rules.World) {
	t.Helper()
	clients, from := 0, 0
	for i := range 3 {
		if s := w.Session(sessionID(i)); s != nil && s.Present && s.Value.Kind == entry.SessionClient {
			clients++
		}
	}
	for i := range 2 {
		from += w.ClientsFrom(originID(i))
	}
	if w.Clients() != clients || from != clients || w.Named() < 0 || w.Named() > 2 {
		t.Fatalf("%d clients, %d by where they come from, %d named pools; there are %d", w.Clients(), from, w.Named(), clients)
	}
}

func wantLine(t *testing.T, p *rules.Pool) {
	t.Helper()
	last, known := uint64(0), map[*rules.Ticket]bool{}
	p.Tickets(func(k *rules.Ticket) bool {
		if k.Revision <= last || p.Ticket(k.Revision) != k || p.TicketAt(k.Key) != k {
			t.Fatalf("ticket %d behind %d", k.Revision, last)
		}
		last, known[k] = k.Revision, true
		return true
	})
	if p.Waiting() > len(known) {
		t.Fatalf("%d wait with %d tickets", p.Waiting(), len(known))
	}
	last = 0
	for _, k := range p.Able() {
		if !known[k] || k.Revision <= last || p.Full() || p.Disputed() {
			t.Fatalf("ticket %d is able", k.Revision)
		}
		last = k.Revision
	}
}

func wantReading(t *testing.T, w *rules.World, p *rules.Pool) {
	t.Helper()
	n, known := w.Read(p).InUse()
	if known && w.Exact() && n != p.InUse() {
		t.Fatalf("read as %d, in use are %d", n, p.InUse())
	}
}
