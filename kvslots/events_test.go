package kvslots

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

func nextEvents(t *testing.T, w EventReader) []Event {
	t.Helper()
	events, err := w.Next(t.Context())
	natstest.Must(t, err)
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
	natstest.Must(t, natstest.Err(s.Register(ctx, pool, 1, WithName("screens"))))
	next := func() (events []Event) { // but for the other peer, which may come late
		for len(events) == 0 {
			events = slices.DeleteFunc(nextEvents(t, w), func(e Event) bool { return e.Type == EventPeerJoined })
		}
		return events
	}
	events := next()
	registered := events[0]
	if registered.Type != EventRegistered || registered.Hash != ByID(pool).Hash() || registered.Name != "screens" {
		t.Errorf("registered: %+v", registered)
	}
	lease, err := other.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), WithLabel("me"))
	natstest.Must(t, err)
	if events = next(); events[0].Type != EventGranted || events[0].Fence != lease.Fence() || events[0].Label != "me" {
		t.Errorf("granted: %+v", events)
	}
	natstest.Must(t, natstest.Err(lease.Return(ctx)))
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
	if e, _, err := elsewhere.(*Watcher).read(); len(e) > 0 || err != nil {
		t.Errorf("of another pool: %+v, %v", e, err)
	}
	if s.First() == other.First() {
		t.Error("none or two Stores are the first")
	}
	natstest.Must(t, s.Close(ctx))
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
	revision := w.ID() + 1<<20
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

// A watcher begins right after an ID, whatever is in the ring before it.
func TestWatchFromAnID(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	kept := s.Watch(0)
	defer kept.Close()
	nextEvents(t, kept)
	base := kept.ID() + 1<<20
	pool, other := ByName("a").hash, ByName("b").hash
	s.watching.note([]peer.Event{
		{Kind: peer.Granted, Revision: base + 1, Pool: pool},
		{Kind: peer.StartsOver, Revision: base + 5},
		{Kind: peer.SessionOver, Revision: base + 6, Pool: pool, Position: 1},
		{Kind: peer.SessionOver, Revision: base + 6, Pool: pool, Position: 2},
		{Kind: peer.Granted, Revision: base + 9, Pool: other},
	})
	from := func(id uint64, pools ...PoolRef) (ids []uint64, at uint64) {
		w := &Watcher{store: s, id: id, pools: pools}
		w.begin(base + 9)
		events, _, err := w.read()
		natstest.Must(t, err)
		for _, e := range events {
			ids = append(ids, e.ID-base)
		}
		return ids, w.ID() - base
	}
	for _, c := range []struct {
		after uint64
		pools []PoolRef
		want  string
	}{
		{1, nil, "[5 6 6 9] 9"},
		{5, nil, "[6 6 9] 9"},
		{6, nil, "[9] 9"},
		{7, nil, "[9] 9"},
		{9, nil, "[] 9"},
		{1, []PoolRef{{hash: pool}}, "[5 6 6] 9"},
		{6, []PoolRef{{hash: pool}}, "[] 9"},
	} {
		if ids, at := from(base+c.after, c.pools...); fmt.Sprint(ids, at) != c.want {
			t.Errorf("after %d of %d pools: %v %d, want %s", c.after, len(c.pools), ids, at, c.want)
		}
	}
}

// All events of an ID are returned together, however many there are.
func TestEventsOfAnIDStayTogether(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	w := s.Watch(0)
	defer w.Close()
	nextEvents(t, w)
	var events []peer.Event
	for i := range maxRead + 10 {
		events = append(events, peer.Event{Kind: peer.SessionOver, Revision: w.ID() + 1 + uint64(i/(maxRead-1))})
	}
	s.watching.note(events)
	if first := nextEvents(t, w); len(first) != len(events) {
		t.Errorf("%d events of %d", len(first), len(events))
	}
}

// A watcher that has read at another Store, which is ahead, waits until this one has seen as much;
// one with an ID that nobody has given starts over.
func TestWatchBehind(t *testing.T) {
	ctx := t.Context()
	peers := openPeers(t, natstest.Start(t, ""), 2)
	for _, s := range peers {
		w := s.Watch(0)
		defer w.Close()
	}
	pool := uuid.New()
	for range 100 {
		natstest.Must(t, natstest.Err(peers[0].Register(ctx, pool, 1)))
		lease, err := peers[0].Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0))
		natstest.Must(t, err)
		ahead := peers[0].Watch(0)
		id := ahead.ID()
		ahead.Close()
		w := peers[1].Watch(id, ByID(pool))
		natstest.Must(t, natstest.Err(lease.Return(ctx)))
		if e := nextEvents(t, w); e[0].Type != EventReturned {
			t.Fatalf("%+v", e)
		}
		w.Close()
	}
	w := peers[1].Watch(1<<60, ByID(pool))
	defer w.Close()
	if e := nextEvents(t, w); len(e) != 1 || e[0].Type != EventStartsOver || e[0].ID >= 1<<60 {
		t.Errorf("%+v", e)
	}
}

// Two Watchers share what an event is encoded as.
func TestEventsAreEncodedOnce(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	watchers := []EventReader{s.Watch(0), s.Watch(0)}
	for _, w := range watchers {
		defer w.Close()
		if _, err := w.Next(t.Context()); err != nil { // EventStartsOver, of each its own
			t.Fatal(err)
		}
	}
	natstest.Must(t, natstest.Err(s.Register(t.Context(), uuid.New(), 1)))
	calls := 0
	encode := func(e *Event) []byte {
		calls++
		return []byte(e.Hash)
	}
	for _, w := range watchers {
		events, err := w.Next(t.Context())
		if err != nil || len(events) != 1 || string(events[0].Encoded(encode)) != events[0].Hash {
			t.Errorf("%+v, %v", events, err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
	if own := (Event{Hash: "x"}); string(own.Encoded(encode)) != "x" {
		t.Error("an event that no Watcher has returned is not encoded")
	}
}
