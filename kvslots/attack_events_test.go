//go:build unix

package kvslots

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// eventReader reads the events of leases, and moves among the stores.
type eventReader struct {
	mu     sync.Mutex
	moves  int
	events int
	over   []idRange // changes may be missing
	blind  []period  // when over was
	last   time.Time // of the last event, by the stream leader's clock, which is that of this test
	leases map[eventKey][]Event
	joined map[string]Event // by label
	at     uint64
	from   uint64 // it has read everything after, but for over
}

// idRange is a range of IDs of events: those above from, up to to.
type idRange struct{ from, to uint64 }

// eventKey names a lease, as events do.
type eventKey struct {
	hash     string
	position int
	fence    uint64
}

func (a *attack) read() {
	for i := range 4 {
		reader := &eventReader{leases: map[eventKey][]Event{}, joined: map[string]Event{}}
		a.readers = append(a.readers, reader)
		r := a.random(800 + i)
		a.running.Go(func() {
			for a.pause(a.stop, 0) {
				reader.visit(a, a.any(r), time.Duration(r.IntN(8000))*time.Millisecond)
				a.pause(a.stop, time.Duration(r.IntN(500))*time.Millisecond)
			}
		})
	}
	for _, store := range a.stores { // so that each store makes events
		w := store.Watch(0)
		a.t.Cleanup(w.Close)
	}
}

// visit reads at a store for some time.
func (e *eventReader) visit(a *attack, store *cutStore, d time.Duration) {
	ctx, cancel := context.WithTimeout(a.t.Context(), d)
	defer cancel()
	e.mu.Lock()
	e.moves++
	after := e.at
	e.mu.Unlock()
	w := store.Watch(after)
	defer w.Close()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return
		}
		e.add(a, store, events, w.ID())
	}
}

func (e *eventReader) add(a *attack, store *cutStore, events []Event, id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range events {
		if v.Type == EventStartsOver {
			e.blind = append(e.blind, period{e.last, time.Now()})
			if e.from == 0 {
				e.from = v.ID
			} else {
				e.over = append(e.over, idRange{e.at, v.ID})
			}
			e.at = v.ID
			continue
		}
		if v.ID < e.at {
			a.ledger.Fail("%s: the event %+v is told after %d", store.name, v, e.at)
		}
		e.at, e.last = v.ID, v.Time
		e.events++
		switch {
		case v.Type == EventJoined:
			e.joined[fmt.Sprint(v.Hash, v.Label)] = v
		case v.Fence > 0:
			key := eventKey{v.Hash, v.Position, v.Fence}
			e.leases[key] = append(e.leases[key], v)
		}
	}
	e.at = max(e.at, id)
}

// covers reports whether the reader must have read the events of an ID.
func (e *eventReader) covers(id uint64) bool {
	return id > e.from && id <= e.at && !slices.ContainsFunc(e.over, func(s idRange) bool { return id > s.from && id <= s.to })
}

// drain has each reader read all events.
func (a *attack) drain() {
	if _, err := a.stores[0].Register(a.t.Context(), uuid.New(), 1); err != nil {
		a.t.Error(err)
	}
	w := a.stores[0].Watch(0)
	last := w.ID()
	w.Close()
	for i, e := range a.readers {
		eventually(a.t, "a reader has read all events", func() bool {
			e.visit(a, a.stores[i%len(a.stores)], 100*time.Millisecond)
			return e.at >= last
		})
	}
}

func (a *attack) sum(of func(*eventReader) int) (n int) {
	for _, e := range a.readers {
		n += of(e)
	}
	return n
}

func (a *attack) moves() int      { return a.sum(func(e *eventReader) int { return e.moves }) }
func (a *attack) startsOver() int { return a.sum(func(e *eventReader) int { return len(e.over) }) }
func (a *attack) events() int     { return a.sum(func(e *eventReader) int { return e.events }) }

// checkEvents checks that each reader has read one grant and one end of each lease, with the
// same ID as the other readers, unless it has started over meanwhile. It returns how many pairs
// of a lease and a reader were compared.
func (a *attack) checkEvents() (compared int) {
	hashes, deletable := map[uuid.UUID]string{}, map[string]bool{}
	for _, p := range a.targets {
		hashes[p.id] = ByID(p.id).Hash()
		deletable[hashes[p.id]] = p.deleted
	}
	type lease struct{ granted, ended Event }
	known := map[eventKey]*lease{}
	for _, e := range a.readers {
		for key, events := range e.leases {
			l := known[key]
			if l == nil {
				l = new(lease)
				known[key] = l
			}
			for _, v := range events {
				of := &l.ended
				if v.Type == EventGranted {
					of = &l.granted
				}
				if of.ID != 0 && (of.ID != v.ID || of.Type != v.Type) {
					a.ledger.Fail("a lease has two events of a kind: %+v, and %+v", *of, v)
				}
				*of = v
			}
		}
	}
	for key, t := range a.leases {
		l := known[eventKey{hashes[key.pool], key.position, key.fence}]
		if l == nil {
			l = new(lease)
		}
		switch {
		case l.granted.ID == 0 && a.allSeen(period{t.asked, t.Granted}):
			a.ledger.Fail("%s, asked for at %s: no reader was told of the grant; of the end: %+v; %s", t, timeOfDay(t.asked), l.ended, a.sight(t.Granted))
		case l.granted.ID != 0 && l.ended.ID == 0 && !deletable[hashes[key.pool]] && a.allSeen(period{t.Granted, t.Ends.Add(time.Minute)}):
			a.ledger.Fail("%s: no reader was told of the end", t)
		case l.ended.Type == EventWithdrawn:
			a.ledger.Fail("%s: was told of, and withdrawn: %+v", t, l.ended)
		}
	}
	for key, l := range known {
		for i, e := range a.readers {
			var granted, ended int
			for _, v := range e.leases[key] {
				if v.Type == EventGranted {
					granted++
				} else {
					ended++
				}
			}
			compared++
			if granted > 1 || granted == 0 && l.granted.ID != 0 && e.covers(l.granted.ID) {
				a.ledger.Fail("reader %d was told %d times of %+v", i, granted, l.granted)
			}
			if ended > 1 || ended == 0 && l.ended.ID != 0 && e.covers(l.ended.ID) {
				a.ledger.Fail("reader %d was told %d times of %+v", i, ended, l.ended)
			}
		}
	}
	a.checkOrder()
	return compared
}

// allSeen reports whether a reader has seen all that happened in a time.
func (a *attack) allSeen(during period) bool {
	return slices.ContainsFunc(a.readers, func(e *eventReader) bool { return overlap(e.blind, during) == 0 })
}

// sight describes which readers may have missed something that happened at about a time.
func (a *attack) sight(at time.Time) (text string) {
	for i, e := range a.readers {
		for _, b := range e.blind {
			if b.overlaps(period{at.Add(-10 * time.Second), at.Add(10 * time.Second)}) {
				text += fmt.Sprintf("reader %d started over between %s and %s; ", i, timeOfDay(b.from), timeOfDay(b.to))
			}
		}
	}
	return text
}

// checkOrder checks that a store served its callers without a key in the order of their tickets.
func (a *attack) checkOrder() {
	type turn struct{ joined, granted Event }
	lines := map[string]map[string]turn{}
	for _, e := range a.readers {
		for _, events := range e.leases {
			g := events[0]
			j, ok := e.joined[fmt.Sprint(g.Hash, g.Label)]
			store, _, keyless := strings.Cut(g.Label, keylessJob)
			if !ok || !keyless || g.Type != EventGranted || j.ID > g.ID || len(events) > 1 && events[len(events)-1].Type == EventWithdrawn {
				continue
			}
			line := g.Hash + store
			if lines[line] == nil {
				lines[line] = map[string]turn{}
			}
			if was, ok := lines[line][g.Label]; !ok || g.ID < was.granted.ID {
				lines[line][g.Label] = turn{j, g}
			}
		}
	}
	checked := 0
	for _, line := range lines {
		var turns []turn
		for _, t := range line {
			turns = append(turns, t)
		}
		slices.SortFunc(turns, func(a, b turn) int { return int(a.joined.ID) - int(b.joined.ID) })
		for i, t := range turns {
			for _, later := range turns[i+1:] {
				if later.joined.ID > t.granted.ID {
					break
				}
				checked++
				allowed := time.Second
				if a.disturbed(period{t.joined.Time.Add(-5 * time.Second), t.granted.Time.Add(5 * time.Second)}) {
					allowed = 10 * time.Second
				}
				if early := t.granted.Time.Sub(later.granted.Time); early > allowed {
					a.ledger.Fail("%s joined at %d, before %s at %d, and was granted %v after it", t.joined.Label, t.joined.ID, later.joined.Label, later.joined.ID, early)
				}
			}
		}
	}
	a.t.Logf("the order of %d pairs of waiters was compared", checked)
}
