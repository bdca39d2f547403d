package sim

import (
	"maps"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// truth is the true state of the stream, without the lag and gaps of a peer's view. It
// holds the entries as they were written.
type truth struct {
	s        *Simulation
	stream   *stream.Stream
	consumer *stream.Consumer
	last     uint64 // the last sequence that was read
	pools    map[entry.Hash]*poolTruth
	sessions map[entry.Hash]*entry.Entry
	claims   map[claimKey]*claim
	totals   totals // of the pools

	events     []peer.Event         // what the entries tell, since the stream last went back
	renewals   map[claimKey]Instant // when the slot was last written again while it was lent
	presenceAt Instant              // when a peer last wrote its presence; 0: never
}

func newTruth(s *Simulation, from *stream.Stream) *truth {
	t := &truth{s: s, stream: from, claims: map[claimKey]*claim{}, renewals: map[claimKey]Instant{}}
	t.reset()
	return t
}

func (t *truth) reset() {
	old := t.pools
	t.totals = totals{}
	t.pools = map[entry.Hash]*poolTruth{}
	for id, p := range old { // what the stream does not say
		now := t.pool(id)
		now.calls, now.removedAt = p.calls, p.removedAt
	}
	t.sessions = map[entry.Hash]*entry.Entry{}
	t.consumer = t.stream.Consumer(0)
}

func (t *truth) pool(id entry.Hash) *poolTruth {
	p := t.pools[id]
	if p == nil {
		p = &poolTruth{
			truth: t, id: id, config: &entry.Entry{Marker: true}, slots: map[int]*entry.Entry{},
			tickets: map[entry.Key]*ticketTruth{}, borrows: map[entry.Hash]int{}, changed: t.s.now,
		}
		t.pools[id] = p
	}
	return p
}

// catchUp applies what is new in the stream, and reports whether anything is.
func (t *truth) catchUp() bool {
	if t.consumer.Lost() {
		if !t.stream.Exists() {
			return false
		}
		t.reload()
	}
	found := false
	for {
		m, ok := t.consumer.Next()
		if !ok {
			return found
		}
		found = true
		e := t.s.server.entry(&m)
		t.last = e.Revision
		if t.s.trace != nil {
			t.s.trace.keys[e.Key] = struct{}{}
		}
		t.apply(e)
		t.observeTotals()
	}
}

// reload reads the stream from its start, because the stream may have gone back.
func (t *truth) reload() {
	before, had := t.revisions(), t.last
	t.reset()
	t.s.check.marks.reset()
	clear(t.s.server.entries)
	last := t.stream.Info().Last
	for t.last = 0; ; {
		m, ok := t.consumer.Next()
		if !ok {
			break
		}
		t.load(t.s.server.entry(&m))
	}
	for key, c := range t.claims {
		if c.revision > last {
			delete(t.claims, key)
		}
	}
	t.last = last
	if last < had || !maps.Equal(before, t.revisions()) {
		t.streamChanged()
	}
	for _, p := range t.pools {
		p.updateFree(t.s.now)
		p.observe()
		t.recount(p)
	}
	t.s.check.losses.onReread()
}

// revisions returns the entries that have a meaning, by key.
func (t *truth) revisions() map[entry.Key]uint64 {
	revisions := map[entry.Key]uint64{}
	for _, p := range t.pools {
		if p.registered() {
			revisions[p.config.Key] = p.config.Revision
		}
		for _, e := range p.slots {
			revisions[e.Key] = e.Revision
		}
		for _, w := range p.tickets {
			revisions[w.Key] = w.Revision
		}
	}
	for _, e := range t.sessions {
		revisions[e.Key] = e.Revision
	}
	return revisions
}

// load takes an entry as it is, without a check of what it changes.
func (t *truth) load(e *entry.Entry) {
	t.s.check.marks.loaded(e)
	switch e.Key.Kind {
	case entry.Config:
		t.pool(e.Key.Pool).config = e
	case entry.Slot:
		if !e.Marker {
			t.pool(e.Key.Pool).setSlot(e)
		}
	case entry.Ticket:
		if !e.Marker {
			t.pool(e.Key.Pool).setTicket(e, t.s.now)
		}
	case entry.Session:
		if !e.Marker {
			t.sessions[e.Key.Session] = e
		}
	}
}

// apply takes an entry, adds its events, and has the checker check what it ends.
func (t *truth) apply(e *entry.Entry) {
	was := t.sessions[e.Key.Session]
	before := t.sceneOf(e)
	t.change(e)
	t.tell(e, was, before)
}

func (t *truth) change(e *entry.Entry) {
	if e.Corrupt != nil {
		t.s.fail("values", "%s has a corrupt value: %v", e.Key, e.Corrupt)
		return
	}
	t.s.check.marks.applied(e)
	t.s.check.losses.applied(e)
	if e.Key.Kind == entry.Session {
		_, before := t.sessions[e.Key.Session]
		if t.sessions[e.Key.Session] = e; e.Marker {
			delete(t.sessions, e.Key.Session)
			t.s.check.sessionEnded(e)
		} else if e.Session.Kind == entry.SessionPeer {
			t.presenceAt = t.s.now
		}
		if before == e.Marker {
			t.s.check.observeReadings(nil)
			for _, p := range t.pools {
				p.observe()
			}
		}
		return
	}
	if e.Key.Pool.IsZero() {
		return
	}
	p := t.pool(e.Key.Pool)
	switch e.Key.Kind {
	case entry.Config:
		before := p.config
		p.config = e
		if e.Config.Closing {
			p.idleFrom = p.usedAt
		}
		t.s.check.configured(p, before, e)
		closes := e.Config.Closing && !before.Config.Closing
		if !closes && !e.Marker { // a registration, or a peer that has found a use
			p.calledAt = t.s.now
		}
	case entry.Slot:
		t.slot(p, e)
	case entry.Ticket:
		t.s.check.checkPlace(p, e)
		if e.Marker {
			t.s.check.lines.ticketEnded(p.tickets[e.Key])
			p.dropTicket(e.Key)
		} else {
			p.setTicket(e, t.s.now)
		}
	}
	p.changed = t.s.now
	if e.Key.Kind != entry.Config || !e.Config.Closing {
		p.usedAt = t.s.now
	}
	p.updateFree(t.s.now)
	p.observe()
	t.recount(p)
	t.s.check.observeReadings(p)
}

func (t *truth) slot(p *poolTruth, e *entry.Entry) {
	before := p.slots[e.Key.N]
	if e.Marker {
		p.dropSlot(e.Key.N)
	} else {
		t.noteRaces(p, e)
		if e.Slot.Fence == 0 {
			t.claims[claimKey{e.Key, e.Fence()}] = p.claim(t.s, e)
		} else if c := t.claims[claimKey{e.Key, e.Slot.Fence}]; c != nil {
			c.doubtful = false
		}
		if e.Slot.Fence != 0 && t.holds(p, e) {
			t.renewals[claimKey{e.Key, e.Slot.Fence}] = t.s.now
		}
		if key := t.s.check.keys[e.Slot.Request]; key != nil {
			key.ends = append(key.ends, t.s.now.Add(e.Slot.TTL.Duration()))
		}
		p.setSlot(e)
	}
	if before != nil && (e.Marker || e.Slot.Lease != before.Slot.Lease) {
		t.s.check.slotEnded(p, before, e)
	}
}
