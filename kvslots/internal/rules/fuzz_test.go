package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// decoder turns bytes into entries: any entry, in any order, with any gap. The view
// stays consistent whatever other programs write.
type decoder struct {
	bytes []byte
	view  *rules.View
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

func (d *decoder) passes() time.Duration {
	return time.Duration(d.below(8)) * []time.Duration{150 * time.Millisecond, 0, time.Second, 3 * time.Minute}[d.below(4)]
}

func (d *decoder) key() entry.Key {
	pool, session := poolID(d.below(2)), sessionID(d.below(3))
	return []entry.Key{
		rules.ConfigKey(pool), rules.SlotKey(pool, d.below(4)), rules.SlotKey(pool, 14+d.below(4)), ticketKey(pool, session, d.below(2)),
		rules.SessionKey(session), barrierKey(session), {},
	}[d.below(7)]
}

func (d *decoder) entry() entry.Entry {
	d.at = d.at.Add(d.passes() - time.Second)
	e := entry.Entry{Key: d.key(), Time: d.at, Revision: d.view.Revision + 1, TTL: time.Duration(d.below(4)) * time.Minute}
	if jump := d.byte(); jump > 200 {
		e.Revision += uint64(jump - 200)
	}
	e.Previous, _ = d.view.Latest(e.Key)
	if d.below(3) == 0 {
		e.Previous = e.Revision - min(e.Revision, uint64(d.byte()))
	}
	before := e.Revision - min(e.Revision, uint64(d.below(9)))
	if d.below(4) == 0 {
		e.Outlives = d.at.Add(d.passes()).UnixMilli()
	}
	switch d.below(8) {
	case 0:
		e.Corrupt = errUnreadable
		return e
	case 1, 2:
		e.Marker = true
		return e
	}
	d.value(&e, before)
	return e
}

func (d *decoder) value(e *entry.Entry, before uint64) {
	lease, generation, other := leaseID(d.below(4)), 1+uint64(d.below(2)), sessionID(d.below(3))
	flag, second := d.below(3), entry.Span(time.Second)
	switch e.Key.Kind {
	case entry.Config:
		e.Config = entry.ConfigValue{Count: d.below(6), Generation: generation, Closing: d.below(6) == 0}
		if flag == 1 {
			e.Config.Terms = entry.Terms{Name: "x", Limit: max(1, e.Config.Count)}
		}
	case entry.Slot:
		e.Slot = entry.SlotValue{
			Lease: lease, Generation: generation, Claimer: other, Ticket: before, TTL: second, Fence: e.Revision * uint64(flag/2),
		}
		if before%3 == 0 {
			e.Slot.Request = requestID(int(before % 2))
		}
		if flag > 0 {
			e.Slot.Session = sessionID(d.below(3))
		} else {
			e.Slot.Origin = originID(d.below(2))
		}
	case entry.Ticket:
		e.Ticket = entry.TicketValue{Lease: lease, Generation: generation, Wait: second, Place: before * uint64(d.below(2)), Spent: d.below(4) == 0}
		if flag > 0 {
			e.Ticket.Peer, e.Ticket.TTL, e.Ticket.Session = other, second*entry.Span(flag-1), sessionID(d.below(3))
			e.Ticket.Grace, e.Ticket.Away, e.Ticket.Request = second*entry.Span(d.below(2)), d.below(2) == 0, requestID(d.below(2))
		} else {
			e.Ticket.Origin = originID(d.below(2))
		}
	case entry.Session:
		e.Session = entry.SessionValue{Kind: entry.SessionPeer, Idle: second}
		if flag > 0 {
			e.Session.Kind, e.Session.Origin = entry.SessionClient, originID(d.below(2))
		}
	}
}

func (d *decoder) step() {
	d.now = d.now.Add(d.passes())
	w := d.view
	switch d.below(16) {
	case 0:
		w.PassOver(d.now)
	case 1:
	case 2:
		if w.Live = d.below(4) == 0; !w.Live {
			w.BecomeLive()
		}
	case 3:
		w.Due(time.Second, 3, d.now)
	case 4:
		w.Postpone(d.now)
	case 5:
		w.Forget(d.now)
	case 6:
		w.Found(d.key(), 0, 0)
	case 7:
		w.HoldBack(d.now, time.Second)
	case 8:
		w.CountAnew(uint64(d.byte()), d.now)
	case 9:
		m := entry.NewPurge(d.key(), 0, rules.MarkerTTL)
		w.Outlive(&m)
	default:
		e := d.entry()
		w.Apply(&e, time.Duration(d.below(3))*time.Second, d.now)
	}
}

func FuzzView(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a pool with a count and leases, and what comes of it when no peer keeps to the rules"))
	for seed := range byte(16) {
		text := make([]byte, 900)
		for i := range text {
			text[i] = byte(i*i*7+i*int(seed)*13) ^ byte(i>>3)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &decoder{bytes: text[:min(len(text), 4000)], view: newView(), at: time.Unix(1_000_000, 0)}
		for len(d.bytes) > 0 {
			d.step()
			wantView(t, d.view, d.now)
		}
	})
}

// wantView compares what the view derives with what it derives that from.
func wantView(t *testing.T, w *rules.View, now rules.Instant) {
	t.Helper()
	pools, named, clients, from := 0, 0, 0, 0
	for i := range 2 {
		from += w.ClientsFrom(originID(i))
		if p := w.Pool(poolID(i)); p != nil {
			pools++
			wantSlots(t, w, p, now)
			wantLine(t, p)
			if p.Terms().Named() && p.InUseOrWaited() {
				named++
			}
		}
	}
	for i := range 3 {
		if s := w.Session(sessionID(i)); s.Alive() && s.Value.Kind == entry.SessionClient {
			clients++
		}
	}
	wantHolders(t, w)
	if w.Clients != clients || from != clients || w.InNames.Pools != named || w.Pools() != pools {
		t.Fatalf("%d clients, %d by origin, %d names, %d pools; there are %d, %d, %d", w.Clients, from, w.InNames.Pools, w.Pools(), clients, named, pools)
	}
}

// wantHolders compares the names that each holder uses with the slots and tickets.
func wantHolders(t *testing.T, w *rules.View) {
	t.Helper()
	want := map[entry.Hash]map[*rules.Pool]bool{}
	add := func(holder entry.Hash, p *rules.Pool) {
		if want[holder] == nil {
			want[holder] = map[*rules.Pool]bool{}
		}
		want[holder][p] = true
	}
	of := func(session, origin entry.Hash, p *rules.Pool) {
		if s := w.Session(session); s.Alive() && s.Value.Kind == entry.SessionClient {
			add(session, p)
			add(s.Value.Origin, p)
		}
		add(origin, p)
	}
	w.EachPool(func(p *rules.Pool) bool {
		if p.Exists() && p.Terms().Named() && len(p.Config.Out) > 0 {
			add(p.Config.OutOrigin, p)
		}
		p.Slots(func(s *rules.Slot) bool {
			if s.Taken {
				of(s.Value.Session, s.Value.Origin, p)
			}
			return true
		})
		p.Tickets(func(x *rules.Ticket) bool {
			of(x.Holder(), x.Value.Origin, p)
			return true
		})
		return true
	})
	for _, holder := range []entry.Hash{originID(0), originID(1), sessionID(0), sessionID(1), sessionID(2)} {
		names := want[holder]
		if got := w.NamesOf(holder); got != len(names) {
			t.Fatalf("%d names, want %d", got, len(names))
		}
		for i := range 2 {
			if p := w.Pool(poolID(i)); w.Uses(holder, p) != (p != nil && names[p]) {
				t.Fatalf("uses pool %d: %v", i, w.Uses(holder, p))
			}
		}
	}
}

func wantSlots(t *testing.T, w *rules.View, p *rules.Pool, now rules.Instant) {
	t.Helper()
	live := map[int]bool{}
	p.Slots(func(s *rules.Slot) bool {
		if s.Live() {
			live[s.Position] = true
			if found := p.Lease(s.Value.Lease, 0); found == nil || found.Value.Lease != s.Value.Lease {
				t.Fatalf("the lease of slot %d is not found", s.Position)
			}
		}
		if s.Excluded() && s.Good() {
			t.Fatalf("slot %d: a claim is excluded and good", s.Position)
		}
		if s.Live() == s.Orphaned() || s.Revision > w.Revision || p.Slot(s.Position) != s {
			t.Fatalf("slot %d: %+v", s.Position, s)
		}
		return true
	})
	if p.InUse() != len(live) || p.Full() != (len(live) >= p.Count()) || p.InDoubt(now) && len(live) == 0 {
		t.Fatalf("in use: %d, full: %v; want %v of %d", p.InUse(), p.Full(), live, p.Count())
	}
	if position, ok := p.Choose(nil, &rules.InFlight{}); ok && (live[position] || position >= p.Count() || p.Full()) {
		t.Fatalf("position %d chosen of %v of %d", position, live, p.Count())
	}
}

func wantLine(t *testing.T, p *rules.Pool) {
	t.Helper()
	last, standing, known := uint64(0), 0, map[*rules.Ticket]bool{}
	p.Tickets(func(k *rules.Ticket) bool {
		if k.Place < last || p.TicketAt(k.Key) != k || k.Served() {
			t.Fatalf("ticket %d behind %d", k.Place, last)
		}
		if last, known[k] = k.Place, true; k.Stands() {
			standing++
		}
		return true
	})
	if p.Waiting() != standing {
		t.Fatalf("%d wait, want %d", p.Waiting(), standing)
	}
	last = 0
	for _, k := range p.Able() {
		if !known[k] || k.Place < last || p.Full() || !k.Stands() {
			t.Fatalf("ticket %d is able", k.Place)
		}
		last = k.Place
	}
}
