package peer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A change of leader loses the presence that a view waits for to become live. It was sent again
// only after 500 ms.
func TestPresenceOfCatchUpIsSentAgain(t *testing.T) {
	h := newHarness(t)
	h.auto = false
	h.breakFeed()
	lost := h.take(entry.Session)
	h.pass(99 * time.Millisecond)
	if len(h.sent) > 0 {
		t.Fatalf("the peer writes %+v", h.sent[0].Message)
	}
	h.pass(time.Millisecond)
	if again := h.take(entry.Session); again.Author != lost.Author {
		t.Errorf("the peer writes %+v after %+v", again.Message, lost.Message)
	}
}

// A refresh of the presence was written just before the stream lost its leader, and fed seconds
// later. The peer counted from when it was fed, missed the time without a leader, and ended a
// session early.
func TestLatePresenceHidesNoTimeWithoutLeader(t *testing.T) {
	h, key := newSession(t)
	for len(h.sent) == 0 {
		h.pass(10 * time.Millisecond)
	}
	refresh := h.take(entry.Session)
	written := h.store(&refresh.Message)
	h.pass(2400 * time.Millisecond)
	h.feed(written)
	h.pass(2 * time.Second)
	h.sent = nil // there was no leader
	h.passWithout(entry.Key{}, 9*time.Second)
	if h.hasEnded(key) {
		t.Error("the session has ended within its idle time")
	}
}

// A session that is not used ends although every write takes 0.9 s.
func TestSessionEndsOnSlowLink(t *testing.T) {
	h, key := newSession(t)
	type batch struct {
		at     peer.Instant
		writes []peer.Write
	}
	var sent []batch
	for end := h.now.Add(15 * time.Second); h.now < end && !h.hasEnded(key); h.pass(10 * time.Millisecond) {
		sent = append(sent, batch{h.now.Add(900 * time.Millisecond), h.sent})
		for h.sent = nil; sent[0].at <= h.now; sent = sent[1:] {
			for _, w := range sent[0].writes {
				h.publish(&w)
			}
		}
	}
	if !h.hasEnded(key) {
		t.Error("the session has not ended")
	}
}

// newSession returns a harness and the key of a session with an idle time of 10 s. The harness is
// not auto.
func newSession(t *testing.T) (*harness, entry.Key) {
	t.Helper()
	h := newHarness(t)
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: 10 * time.Second})
	h.auto = false
	return h, rules.SessionKey(session)
}

// hasEnded reports whether the stream has the purge of a session.
func (h *harness) hasEnded(session entry.Key) bool {
	return slices.ContainsFunc(h.stream, func(e entry.Entry) bool { return e.Key == session && e.Marker })
}
