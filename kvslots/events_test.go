package kvslots

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

func nextEvents(t *testing.T, w *Watcher) []Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A watcher begins with EventStartsOver, sees what happens from then on, and can go on at another Store.
func TestWatch(t *testing.T) {
	ctx := t.Context()
	peers := openPeers(t, natstest.Start(t, ""), 2)
	s, other := peers[0], peers[1]
	w := s.Watch(0)
	defer w.Close()
	kept := other.Watch(0) // so that the other Store remembers
	defer kept.Close()
	if e := nextEvents(t, w); len(e) != 1 || e[0].Type != EventStartsOver || e[0].ID == 0 {
		t.Fatalf("at first: %+v", e)
	}
	pool := uuid.New()
	if _, err := s.Register(ctx, pool, 1, WithName("screens")); err != nil {
		t.Fatal(err)
	}
	var events []Event
	for len(events) < 1 {
		events = append(events, nextEvents(t, w)...)
	}
	registered := events[0]
	if registered.Type != EventRegistered || registered.Hash != ByID(pool).Hash() || registered.Name != "screens" {
		t.Errorf("registered: %+v", registered)
	}
	lease, err := other.Borrow(ctx, pool, time.Minute, 0, WithLabel("me"))
	if err != nil {
		t.Fatal(err)
	}
	if events = nextEvents(t, w); events[0].Type != EventGranted || events[0].Fence != lease.Fence() || events[0].Label != "me" {
		t.Errorf("granted: %+v", events)
	}
	if _, err := lease.Return(ctx); err != nil {
		t.Fatal(err)
	}
	resumed := other.Watch(registered.ID, ByID(pool))
	defer resumed.Close()
	events = nil
	for len(events) < 2 {
		events = append(events, nextEvents(t, resumed)...)
	}
	if events[0].Type != EventGranted || events[1].Type != EventReturned {
		t.Errorf("resumed: %+v", events)
	}
	elsewhere := s.Watch(registered.ID, ByName("x"))
	defer elsewhere.Close()
	if e, _, err := elsewhere.read(); len(e) > 0 || err != nil {
		t.Errorf("of another pool: %+v, %v", e, err)
	}
	if s.First() == other.First() {
		t.Error("none or two Stores are the first")
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A watcher that is too slow starts over, and one that comes back late, too.
func TestSlowWatcher(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	w := s.Watch(0)
	defer w.Close()
	nextEvents(t, w)
	revision := w.after + 1<<20
	push := func(n int) {
		for range n {
			revision++
			s.watching.note([]peer.Event{{Kind: peer.PeerCame, Revision: revision}})
		}
	}
	push(maxEvents)
	for n := 0; n < maxEvents; {
		for _, e := range nextEvents(t, w) {
			if e.Type == EventStartsOver {
				t.Fatal("it has not fallen behind")
			}
			n++
		}
	}
	push(maxEvents + 1)
	if e := nextEvents(t, w); len(e) != 1 || e[0].Type != EventStartsOver || e[0].ID != revision {
		t.Errorf("behind: %+v", e)
	}
	push(1)
	if e := nextEvents(t, w); len(e) != 1 || e[0].ID != revision {
		t.Errorf("afterwards: %+v", e)
	}
	if n := len(s.watching.ring); n != maxEvents {
		t.Errorf("%d events are remembered", n)
	}
}
