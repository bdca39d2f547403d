package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A session that ends before its client knows of it is not "gone" for that client. The
// acknowledgement comes so late that the answer waits for a refresh.
func TestSessionEndsBeforeItsCreationIsAnswered(t *testing.T) {
	h := newHarness(t)
	h.auto = false
	session := h.hash()
	call := h.begin(peer.CreateSession{Session: session, Idle: time.Second})
	creation := h.take(entry.Session)
	h.now = h.now.Add(600 * time.Millisecond)
	h.publish(&creation)
	h.settle()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %v without a refresh", a.Err)
	}
	end := entry.NewPurge(rules.SessionKey(session), h.last, rules.MarkerTTL)
	h.feed(h.store(&end))
	h.settle()
	if a, answered := h.answers[call]; !answered || !errors.Is(a.Err, peer.ErrUnavailable) {
		t.Errorf("answered %t, %v", answered, a.Err)
	}
}

// closingWithRefresh returns a harness whose peer is closing while a session needs a refresh,
// with the peer's presence, which waits to be written, and the purge of the session.
func closingWithRefresh(t *testing.T) (h *harness, presence peer.Write, end entry.Message) {
	t.Helper()
	h = newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: 10 * time.Second})
	key := rules.SessionKey(session)

	h.auto = false
	h.begin(peer.Ping{Session: session})
	h.passWithout(entry.Key{}, 2*time.Second) // the session was used since it was written
	h.begin(peer.Ping{Session: session})
	for len(h.sent) == 0 || h.sent[0].Key.Kind != entry.Session || h.sent[0].Key == key {
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			h.publish(&w)
		}
		h.pass(10 * time.Millisecond)
	}
	presence = h.take(entry.Session)
	h.p.Close(h.now)
	return h, presence, entry.NewPurge(key, h.stands[key], rules.MarkerTTL)
}

// refreshesOf returns how many times the peer refreshes a session within 10 s.
func (h *harness) refreshesOf(key entry.Key) (n int) {
	for range 1000 {
		h.pass(10 * time.Millisecond)
		writes := h.sent
		h.sent = nil
		for _, w := range writes {
			if w.Key == key {
				n++
			}
			h.publish(&w)
		}
	}
	return n
}

// A closing peer still applies the feed, and so learns that a session has ended. It refreshes
// the session no more. (It applied no entry, and sent each refresh again at once that was
// refused.)
func TestClosingPeerRepeatsNoRefusedRefresh(t *testing.T) {
	h, presence, end := closingWithRefresh(t)
	h.feed(h.store(&end))
	h.publish(&presence)
	if n := h.refreshesOf(end.Key); n != 0 {
		t.Errorf("the session that has ended was refreshed %d times", n)
	}
}

// An answer waits until its session is refreshed, which takes 3 s here. The lease begins when it
// is told. The other peers end it rules.Slack after its ttl from the claim on, so it is promised
// for 2 s less.
func TestLeaseBeginsAfterRefresh(t *testing.T) {
	const idle, ttl, late = 10 * time.Second, 10 * time.Second, 3 * time.Second
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: idle})
	h.pass(idle/2 + time.Second) // the session lives for less than half of its idle time
	key := rules.SessionKey(session)
	h.auto = false
	on := peer.Resource{Pool: h.hash(), Name: "a", Lock: true, Limit: 1}
	call := h.begin(peer.Acquire{Resource: on, Session: session, Lease: h.hash(), Nonce: h.hash(), TTL: ttl})
	h.passWithout(key, late)
	h.wantNoAnswer(t, call)
	if h.stands[rules.SlotKey(on.Pool, 0)] == 0 {
		t.Fatal("the lock was not claimed")
	}
	h.publishAll()
	if g := h.granted(call).Grant; g.At != h.now || g.TTL != ttl+rules.Slack-late {
		t.Errorf("the lease lasts for %v from %v before its answer, want %v", g.TTL, h.now.Sub(g.At), ttl+rules.Slack-late)
	}
}

// A session in use is refreshed when its end comes near, about once in half of its idle time.
func TestSessionIsSeldomRefreshed(t *testing.T) {
	const idle = 10 * time.Second
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: idle})
	h.auto = false
	writes := 0
	for end := h.now.Add(time.Minute); h.now < end; h.pass(100 * time.Millisecond) {
		h.begin(peer.Ping{Session: session})
		for _, w := range h.sent {
			if w.Key == rules.SessionKey(session) {
				writes++
			}
		}
		h.publishAll()
	}
	if writes < 6 || writes > 15 {
		t.Errorf("the session was written %d times in a minute, want about once in %v", writes, idle/2)
	}
}
