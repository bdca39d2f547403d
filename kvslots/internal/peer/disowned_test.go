package peer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// dropView has the peer build its view anew from the stream that it has, without the entries to come.
func (h *harness) dropView() {
	h.t.Helper()
	h.loseStream()
	h.sent = nil // what was decided from the earlier view does not reach the stream
}

// loadView loads the view that dropView has begun, and lets the peer work.
func (h *harness) loadView() {
	h.t.Helper()
	h.readAll()
	h.auto, h.manual = true, false
	h.settle()
	h.pass(30 * time.Second)
	h.wantLive()
}

func (h *harness) wantPurged(e entry.Entry) {
	h.t.Helper()
	if h.stands[e.Key] == e.Revision {
		h.t.Errorf("%v stands, and no caller was told of it", e.Key)
	}
}

// newUntold returns a harness whose peer writes what a call asks for, the call, and that write. The stream has not got
// it yet.
var newUntold = map[string]func(t *testing.T) (h *harness, call uint64, w peer.Write){
	"claim": func(t *testing.T) (*harness, uint64, peer.Write) { return newClaim(t) },
	"ticket": func(t *testing.T) (*harness, uint64, peer.Write) {
		h := newHarness(t)
		pool := h.newPool(1)
		h.must(h.borrow(pool, 0))
		h.auto = false
		call := h.begin(h.borrow(pool, time.Hour))
		return h, call, h.take(entry.Ticket)
	},
	"enqueued ticket": func(t *testing.T) (*harness, uint64, peer.Write) {
		h := newHarness(t)
		on, session := h.ownedLock()
		h.auto = false
		call := h.begin(peer.Enqueue{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: time.Hour})
		barrier := h.take(entry.Barrier)
		h.publish(&barrier)
		return h, call, h.take(entry.Ticket)
	},
	"session": func(t *testing.T) (*harness, uint64, peer.Write) {
		h := newHarness(t)
		h.auto = false
		call := h.begin(peer.CreateSession{Session: h.hash(), Idle: time.Hour})
		h.settle()
		for i, w := range h.sent {
			if w.Key.Kind == entry.Session && w.Key != h.presence() {
				h.sent = append(h.sent[:i:i], h.sent[i+1:]...)
				return h, call, w
			}
		}
		t.Fatal("no session is written")
		return nil, 0, peer.Write{}
	},
}

// A write is given up, and its call answered ErrUnavailable. Whenever it turns up in the stream, and whichever view
// shows it, it is purged. A purge that waited for a view went with it, when the view was built anew: the slot stayed
// lent to no caller for its whole ttl.
func TestWriteThatIsGivenUpIsUndone(t *testing.T) {
	for name, begin := range newUntold {
		for when, arrives := range map[string]func(h *harness, w *peer.Write) entry.Entry{
			"in the same view": func(h *harness, w *peer.Write) entry.Entry {
				e := h.store(&w.Message)
				h.auto = true
				h.feed(e)
				h.pass(30 * time.Second)
				return e
			},
			"unseen, before a rebuild": func(h *harness, w *peer.Write) entry.Entry {
				e := h.store(&w.Message)
				h.dropView()
				h.loadView()
				return e
			},
			"seen in a catch-up, before a rebuild": func(h *harness, w *peer.Write) entry.Entry {
				h.manual = true
				h.breakFeed()
				h.beginReading()
				e := h.store(&w.Message)
				h.feed(e)
				h.settle()
				h.dropView()
				h.loadView()
				return e
			},
			"seen, and its purge was sent, before a rebuild": func(h *harness, w *peer.Write) entry.Entry {
				e := h.store(&w.Message)
				h.feed(e)
				h.settle()
				h.dropView()
				h.loadView()
				return e
			},
			"during a load": func(h *harness, w *peer.Write) entry.Entry {
				h.dropView()
				e := h.store(&w.Message)
				h.loadView()
				return e
			},
			"after a load": func(h *harness, w *peer.Write) entry.Entry {
				h.dropView()
				h.loadView()
				e := h.store(&w.Message)
				h.feed(e)
				h.pass(30 * time.Second)
				return e
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				h, call, w := begin(t)
				h.passWithout(w.Key, 5500*time.Millisecond)
				h.wantError(call, peer.ErrUnavailable)
				h.sent = nil
				h.wantPurged(arrives(h, &w))
			})
		}
	}
}

// The view is built anew while a call's write is under way, or settled by a view that was not live.
func TestWriteOfADroppedViewIsUndone(t *testing.T) {
	for name, begin := range newUntold {
		if name == "ticket" { // its borrow waits with it
			continue
		}
		for when, drop := range map[string]func(h *harness, w *peer.Write) entry.Entry{
			"under way": func(h *harness, w *peer.Write) entry.Entry {
				h.dropView()
				return h.store(&w.Message)
			},
			"after a refusal": func(h *harness, w *peer.Write) entry.Entry {
				h.ack(w.ID, peer.NotNow, 0)
				h.pass(60 * time.Millisecond)
				h.ack(w.ID, peer.InFlight, 0)
				h.dropView()
				return h.store(&w.Message)
			},
			"settled by a catch-up": func(h *harness, w *peer.Write) entry.Entry {
				h.manual = true
				h.breakFeed()
				h.beginReading()
				e := h.store(&w.Message)
				h.feed(e)
				h.settle()
				h.dropView()
				return e
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				h, call, w := begin(t)
				e := drop(h, &w)
				h.loadView()
				if h.answers[call].Queued { // the new view has shown its place
					return
				}
				h.wantError(call, peer.ErrUnavailable)
				h.wantPurged(e)
			})
		}
	}
}

// A claim is void, and its purge under way, when the view is built anew.
func TestVoidClaimIsWithdrawnAfterARebuild(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.auto = false
	h.begin(h.borrow(pool, 0))
	claim := h.take(entry.Slot)
	value := entry.SlotValue{Lease: h.hash(), Claimer: h.hash(), Generation: h.generation(pool), TTL: entry.Span(time.Hour)}
	other := entry.NewMessage(slotKey(pool, 1), value, 0, time.Hour)
	h.feed(h.store(&other))
	h.begin(peer.Register{Pool: pool, Count: 1})
	smaller := h.take(entry.Config)
	h.publish(&smaller)
	void := h.store(&claim.Message)
	h.feed(void)
	h.settle()
	if n := h.p.Counters().Voids; n != 1 {
		t.Fatalf("%d claims are void, want one", n)
	}
	h.dropView()
	h.loadView()
	h.wantPurged(void)
}

// A repeat's write is given up, and reaches the stream when the view was built anew. No other caller is told either.
func TestAnswerThatIsGivenUpIsTakenOffAfterARebuild(t *testing.T) {
	h, key := newKeyed(t)
	first := h.must(h.repeat(key))
	h.auto = false
	call := h.begin(h.repeat(key))
	late := h.take(entry.Slot)
	h.passWithout(late.Key, time.Second)
	h.dropView()
	h.wantError(call, peer.ErrUnavailable)
	h.loadView()
	h.publish(&late)
	h.pass(2 * time.Second)
	h.p.Untold(&first, peer.ErrUnavailable, h.now)
	h.pass(time.Second)
	if s := h.inspect(key.Pool); s.InUse != 0 {
		t.Error("the lease stays, and no caller was told of it")
	}
}

// A ticket that a catch-up has shown keeps its place when the view is built anew before its borrow was told.
func TestTicketKeepsItsPlaceInANewView(t *testing.T) {
	h, call, w := newUntold["ticket"](t)
	h.manual = true
	h.breakFeed()
	h.beginReading()
	e := h.store(&w.Message)
	h.feed(e)
	h.settle()
	h.dropView()
	h.loadView()
	if a, answered := h.answers[call]; answered || h.stands[e.Key] != e.Revision {
		t.Errorf("answered %t, %v; the ticket stands: %t", answered, a.Err, h.stands[e.Key] == e.Revision)
	}
}

// A session was created, and its client never learns its id: the session ends at once, instead of after its idle time.
func TestSessionThatNoClientWasToldOfEnds(t *testing.T) {
	for name, s := range map[string]struct {
		idle time.Duration
		lose func(h *harness, call uint64, w *peer.Write)
	}{
		"its call ends before the view shows it": {time.Hour, func(h *harness, call uint64, w *peer.Write) {
			h.p.GiveUp(call, peer.ErrUnavailable, h.now)
			h.publish(w)
		}},
		"its call ends while its answer waits for a refresh": {5 * time.Second, func(h *harness, call uint64, w *peer.Write) {
			h.pass(3 * time.Second)
			h.publish(w)
			h.settle()
			h.p.GiveUp(call, peer.ErrUnavailable, h.now)
			h.settle()
			h.wantError(call, peer.ErrUnavailable)
		}},
		"its answer is not flushed": {time.Hour, func(h *harness, call uint64, w *peer.Write) {
			h.publish(w)
			h.settle()
			a := h.granted(call)
			h.p.Untold(&a, peer.ErrUnavailable, h.now)
		}},
		"its answer is not flushed, before a rebuild": {time.Hour, func(h *harness, call uint64, w *peer.Write) {
			h.publish(w)
			h.settle()
			a := h.granted(call)
			h.p.Untold(&a, peer.ErrUnavailable, h.now)
			h.dropView()
			h.loadView()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.auto = false
			session := h.hash()
			call := h.begin(peer.CreateSession{Session: session, Idle: s.idle})
			w := h.sent[len(h.sent)-1]
			h.sent = nil
			if w.Key != rules.SessionKey(session) {
				t.Fatalf("written is %v", w.Key)
			}
			s.lose(h, call, &w)
			h.auto = true
			h.pass(time.Second)
			if !slices.ContainsFunc(h.stream, func(e entry.Entry) bool { return e.Key == w.Key && e.Marker }) {
				t.Error("the session is not ended")
			}
		})
	}
}
