package peer_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// harness drives one peer, on the stream of a single server that is never late. With
// auto set, each write is stored and fed, and then answered, at once; otherwise it waits in
// sent for the test. A reading delivers what the stream has, unless manual is set.
type harness struct {
	t        testing.TB
	p        *peer.Peer
	now      peer.Instant
	auto     bool
	manual   bool // the test begins readings, and delivers what they find in the stream
	ordered  peer.Reading
	reading  bool // the latest reading delivers entries
	joined   int  // how many readings are over
	created  time.Time
	replicas int
	stream   []entry.Entry // all that was written, the overwritten entries included
	last     uint64
	stands   map[entry.Key]uint64
	configs  map[entry.Key]entry.ConfigValue
	sent     []peer.Write
	answers  map[uint64]peer.Answer
	events   []peer.Event
	names    uint64
	ahead    time.Duration // how much the stream's clock is ahead of the right time
	beside   *harness      // of another peer on the same stream; nil: there is none
	unfed    []entry.Entry // entries that the feed has still to deliver
	paused   bool          // the feed delivers nothing
}

const (
	firstSequence = 1_000_000
	mostRounds    = 1_000_000 // in which a peer must come to rest
)

// newHarness returns a harness with a loaded view of an empty stream.
func newHarness(t testing.TB) *harness {
	t.Helper()
	return newHarnessOf(t, peer.Config{})
}

func newHarnessOf(t testing.TB, cfg peer.Config) *harness {
	t.Helper()
	h := startHarness(t, cfg)
	h.settle()
	h.wantLive()
	return h
}

// startHarness returns a harness whose peer has ordered its first reading.
func startHarness(t testing.TB, cfg peer.Config) *harness {
	if cfg.Random == nil {
		cfg.Random = rand.NewPCG(1, 2)
	}
	h := &harness{
		t: t, now: peer.Instant(time.Hour), auto: true, last: firstSequence,
		stands: map[entry.Key]uint64{}, configs: map[entry.Key]entry.ConfigValue{}, answers: map[uint64]peer.Answer{},
	}
	h.created = h.wall(0)
	h.p = peer.New(cfg, h.now)
	return h
}

func (h *harness) wantLive() {
	h.t.Helper()
	if err := h.p.Status(h.now); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) wantNotLive() {
	h.t.Helper()
	if h.p.Status(h.now) == nil {
		h.t.Fatal("the view is live")
	}
}

// settle carries out the peer's Ready.
func (h *harness) settle() {
	h.t.Helper()
	for rounds := 0; ; rounds++ {
		if rounds > mostRounds {
			h.t.Fatal("the peer writes again and again")
		}
		r := h.p.Ready()
		for _, a := range r.Answers {
			h.answers[a.Call] = a
		}
		h.sent = append(h.sent, r.Writes...)
		h.events = append(h.events, r.Events...)
		if r.Joined != 0 {
			h.joined++
			h.reading = h.reading && r.Joined != h.ordered.Number
		}
		switch {
		case r.Reading != nil:
			h.ordered, h.reading = *r.Reading, false
			if !h.manual {
				h.beginReading()
				h.readAll()
			}
		case h.auto && len(h.sent) > 0:
			w := h.sent[0]
			h.sent = h.sent[1:]
			h.publish(&w)
		case h.beside != nil && len(h.beside.unfed) > 0 && !h.beside.paused:
			h.beside.deliver()
			h.beside.settle()
		default:
			return
		}
	}
}

// join returns the harness of another peer on the stream of h, whose view is loaded.
func (h *harness) join(cfg peer.Config) *harness {
	h.t.Helper()
	cfg.Random = rand.NewPCG(3, 4)
	o := startHarness(h.t, cfg)
	o.now, o.ahead, o.created, o.names, o.last = h.now, h.ahead, h.created, 1<<32, h.last
	o.stream = slices.Clone(h.stream)
	for i := range o.stream {
		o.note(&o.stream[i])
	}
	o.beside, h.beside = h, o
	o.settle()
	o.wantLive()
	return o
}

// wall returns the time by the stream's clock.
func (h *harness) wall(at peer.Instant) time.Time {
	return time.Unix(1_790_000_000, 0).Add(at.Sub(0) + h.ahead)
}

// beginReading begins the reading that the peer has ordered.
func (h *harness) beginReading() {
	h.reading = true
	h.p.ReadingStarted(h.ordered.Number, peer.StreamInfo{Created: h.created, Now: h.wall(h.now), Last: h.last, Replicas: h.replicas}, h.now)
}

// readAll delivers what the reading finds in the stream.
func (h *harness) readAll() {
	for _, e := range h.stream {
		if e.Revision >= h.ordered.From && h.stands[e.Key] == e.Revision {
			h.read(e)
		}
	}
}

// publish stores a write in the stream, or refuses it.
func (h *harness) publish(w *peer.Write) {
	switch {
	case w.Expect == entry.ExpectStream:
		h.ack(w.ID, peer.Conflict, h.last)
	case w.Expect == entry.ExpectRevision && h.stands[w.Key] != w.Revision:
		h.ack(w.ID, peer.Conflict, h.stands[w.Key])
	default:
		e := h.store(&w.Message)
		h.feed(e)
		h.ack(w.ID, peer.Written, e.Revision)
	}
}

// publishAll publishes the writes that wait, except those to some keys, which are lost.
func (h *harness) publishAll(except ...entry.Key) {
	h.settle()
	writes := h.sent
	h.sent = nil
	for i := range writes {
		if !slices.Contains(except, writes[i].Key) {
			h.publish(&writes[i])
		}
	}
	h.settle()
}

// publishPresence publishes the peer's presence, which must be the only session that waits
// to be written.
func (h *harness) publishPresence() {
	h.t.Helper()
	w := h.take(entry.Session)
	h.publish(&w)
	h.settle()
}

// catchUp publishes the peer's presence until the view is live.
func (h *harness) catchUp() {
	h.t.Helper()
	h.settle()
	for end := h.now.Add(time.Second); h.p.Status(h.now) != nil; {
		isSession := func(w peer.Write) bool { return w.Key.Kind == entry.Session }
		switch {
		case slices.ContainsFunc(h.sent, isSession):
			h.publishPresence()
		case h.now < end:
			h.pass(10 * time.Millisecond)
		default:
			h.t.Fatal(h.p.Status(h.now))
		}
	}
}

// store stores a message in the stream.
func (h *harness) store(m *entry.Message) entry.Entry {
	h.last++
	e := h.entry(m, h.last)
	h.stream = append(h.stream, e)
	h.note(&e)
	if o := h.beside; o != nil {
		o.last, o.stream, o.unfed = e.Revision, append(o.stream, e), append(o.unfed, e)
		o.note(&e)
	}
	return e
}

func (h *harness) note(e *entry.Entry) {
	h.stands[e.Key] = e.Revision
	if e.Key.Kind == entry.Config {
		h.configs[e.Key] = e.Config
	}
}

// lose takes the entries above a sequence out of the stream.
func (h *harness) lose(above uint64) {
	h.last = above
	h.stream = slices.DeleteFunc(h.stream, func(e entry.Entry) bool { return e.Revision > above })
	clear(h.stands)
	clear(h.configs)
	for i := range h.stream {
		h.note(&h.stream[i])
	}
}

func (h *harness) entry(m *entry.Message, revision uint64) entry.Entry {
	header := map[string]string{}
	m.Headers(func(name, value string) { header[name] = value })
	return entry.Parse(m.Key.String(), revision, h.wall(h.now), func(name string) string { return header[name] }, m.Value(nil))
}

func (h *harness) ack(id uint64, o peer.Outcome, revision uint64) {
	h.p.Acked(id, peer.Ack{Outcome: o, Revision: revision}, h.now)
}

// feed delivers an entry by the feed, and by the reading if there is one.
func (h *harness) feed(e entry.Entry) {
	h.unfed = append(h.unfed, e)
	if !h.paused {
		h.deliver()
	}
}

// deliver delivers what the feed has.
func (h *harness) deliver() {
	for len(h.unfed) > 0 {
		e := h.unfed[0]
		h.unfed = slices.Delete(h.unfed, 0, 1)
		h.p.Fed(e, h.now)
		if h.reading {
			h.read(e)
		}
	}
}

func (h *harness) read(e entry.Entry) { h.p.Read(h.ordered.Number, e, h.now) }

// breakFeed interrupts the feed.
func (h *harness) breakFeed() {
	h.p.ReadingLost(h.ordered.Number, h.now)
	h.settle()
}

// take removes the write to a key of a kind from sent and returns it.
func (h *harness) take(kind entry.Kind) peer.Write {
	h.t.Helper()
	h.settle()
	for i, w := range h.sent {
		if w.Key.Kind == kind {
			h.sent = append(h.sent[:i:i], h.sent[i+1:]...)
			return w
		}
	}
	h.t.Fatalf("no such write among %d", len(h.sent))
	return peer.Write{}
}

// pass lets time pass, in steps as small as the peer asks for.
func (h *harness) pass(d time.Duration) {
	h.settle()
	end := h.now.Add(d)
	for h.now < end {
		next := end
		if wake := h.p.Ready().WakeAt; wake != 0 {
			next = min(end, max(wake, h.now.Add(time.Millisecond)))
		}
		if o := h.beside; o != nil {
			if wake := o.p.Ready().WakeAt; wake != 0 {
				next = min(next, max(wake, h.now.Add(time.Millisecond)))
			}
			o.now = next
			o.p.Tick(next)
			o.settle()
		}
		h.now = next
		h.p.Tick(h.now)
		h.settle()
	}
}

func (h *harness) begin(r peer.Request) uint64 {
	id := h.p.Do(r, h.now)
	h.settle()
	return id
}

// must begins a request, and fails the test unless it is answered at once, without error.
func (h *harness) must(r peer.Request) peer.Answer {
	h.t.Helper()
	return h.granted(h.begin(r))
}

func (h *harness) granted(id uint64) peer.Answer {
	h.t.Helper()
	a, ok := h.answers[id]
	if !ok || a.Err != nil {
		h.t.Fatalf("call %d: answered %t, %v", id, ok, a.Err)
	}
	delete(h.answers, id)
	return a
}

// hash returns another hash with each call.
func (h *harness) hash() (id entry.Hash) {
	h.names++
	n := h.names * 0x9e3779b97f4a7c15
	for i := range 8 {
		id[i], id[15-i] = byte(n>>(8*i)), byte(h.names>>(8*i))
	}
	return id
}

func (h *harness) newPool(count int) entry.Hash {
	h.t.Helper()
	id := h.hash()
	h.must(peer.Register{Pool: id, Count: count})
	return id
}

func (h *harness) borrow(pool entry.Hash, wait time.Duration) peer.Borrow {
	return peer.Borrow{Pool: pool, Lease: h.hash(), TTL: time.Hour, Wait: wait}
}

// newClaim returns a harness whose peer has claimed the only slot of a pool for a call, and the
// claim, which the test has taken. It is not auto.
func newClaim(t testing.TB) (h *harness, call uint64, claim peer.Write) {
	t.Helper()
	h = newHarness(t)
	pool := h.newPool(1)
	h.auto = false
	call = h.begin(h.borrow(pool, 0))
	return h, call, h.take(entry.Slot)
}

func giveBack(b peer.Borrow) peer.Return {
	return peer.Return{Held: peer.Held{Pool: b.Pool, Lease: b.Lease}}
}

// passWithout lets time pass, in which the stream gets every write except those to a key, which
// are lost.
func (h *harness) passWithout(key entry.Key, d time.Duration) {
	for end := h.now.Add(d); h.now < end; h.pass(10 * time.Millisecond) {
		h.publishAll(key)
	}
}

// wantError fails the test unless a call was answered with an error.
func (h *harness) wantError(id uint64, want error) {
	h.t.Helper()
	if a, answered := h.answers[id]; !answered || !errors.Is(a.Err, want) {
		h.t.Fatalf("call %d: answered %t, %v; want %v", id, answered, a.Err, want)
	}
}
