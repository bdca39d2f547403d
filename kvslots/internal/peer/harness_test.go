package peer_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// harness drives one peer, on the stream of a single server that is never late. With
// auto set, each write is answered and delivered at once; otherwise it waits in sent
// for the test.
type harness struct {
	t       testing.TB
	p       *peer.Peer
	now     peer.Instant
	auto    bool
	watch   uint64
	last    uint64
	stands  map[entry.Key]uint64
	configs map[entry.Key]entry.ConfigValue
	sent    []peer.Write
	answers map[uint64]peer.Answer
	names   uint64
}

const firstSequence = 1_000_000

// newHarness returns a harness with a loaded view of an empty stream.
func newHarness(t testing.TB) *harness {
	t.Helper()
	return newHarnessOf(t, peer.Config{})
}

func newHarnessOf(t testing.TB, cfg peer.Config) *harness {
	t.Helper()
	cfg.Random = rand.NewPCG(1, 2)
	h := &harness{
		t: t, now: peer.Instant(time.Hour), auto: true, last: firstSequence,
		stands: map[entry.Key]uint64{}, configs: map[entry.Key]entry.ConfigValue{}, answers: map[uint64]peer.Answer{},
	}
	h.p = peer.New(cfg, h.now)
	h.settle()
	if err := h.p.Status(h.now); err != nil {
		t.Fatal(err)
	}
	return h
}

// settle carries out the peer's Ready.
func (h *harness) settle() {
	for {
		r := h.p.Ready()
		for _, a := range r.Answers {
			h.answers[a.Call] = a
		}
		h.sent = append(h.sent, r.Writes...)
		switch {
		case r.Watch != nil:
			h.watch = r.Watch.Number
			h.p.WatchStarted(h.watch, peer.StreamInfo{Created: h.wall(0), Now: h.wall(h.now), Last: h.last}, h.now)
		case h.auto && len(h.sent) > 0:
			w := h.sent[0]
			h.sent = h.sent[1:]
			h.publish(&w)
		default:
			return
		}
	}
}

// wall returns the time by the stream's clock.
func (h *harness) wall(at peer.Instant) time.Time { return time.Unix(1_790_000_000, 0).Add(at.Sub(0)) }

// publish stores a write in the stream, or refuses it.
func (h *harness) publish(w *peer.Write) {
	switch {
	case w.Expect == entry.ExpectStream:
		h.ack(w.ID, peer.Conflict, h.last)
	case h.stands[w.Key] != w.Revision:
		h.ack(w.ID, peer.Conflict, h.stands[w.Key])
	default:
		e := h.store(&w.Message)
		h.ack(w.ID, peer.Written, e.Revision)
		h.apply(e)
	}
}

// store stores a message in the stream.
func (h *harness) store(m *entry.Message) entry.Entry {
	h.last++
	h.stands[m.Key] = h.last
	e := h.entry(m, h.last)
	if m.Key.Kind == entry.Config {
		h.configs[m.Key] = e.Config
	}
	return e
}

func (h *harness) entry(m *entry.Message, revision uint64) entry.Entry {
	header := map[string]string{}
	m.Headers(func(name, value string) { header[name] = value })
	return entry.Parse(m.Key.String(), revision, h.wall(h.now), func(name string) string { return header[name] }, m.Data)
}

func (h *harness) ack(id uint64, o peer.Outcome, revision uint64) {
	h.p.Acked(id, peer.Ack{Outcome: o, Revision: revision}, h.now)
}

func (h *harness) apply(e entry.Entry) { h.p.Apply(h.watch, e, h.now) }

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

func giveBack(b peer.Borrow) peer.Return {
	return peer.Return{Held: peer.Held{Pool: b.Pool, Lease: b.Lease}}
}

// passWithout lets time pass, in which the stream gets every write except those to a key, which
// are lost.
func (h *harness) passWithout(key entry.Key, d time.Duration) {
	for end := h.now.Add(d); h.now < end; h.pass(10 * time.Millisecond) {
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			if w.Key != key {
				h.publish(&w)
			}
		}
	}
}

// wantError fails the test unless a call was answered with an error.
func (h *harness) wantError(id uint64, want error) {
	h.t.Helper()
	if a, answered := h.answers[id]; !answered || !errors.Is(a.Err, want) {
		h.t.Fatalf("call %d: answered %t, %v; want %v", id, answered, a.Err, want)
	}
}
