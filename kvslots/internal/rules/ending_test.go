package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// lent is a world with one pool of two slots, of which the first is lent for ten
// seconds, at revision 2 and the instant of start.
func lent(t *testing.T) (s *stream, w *rules.World, slot *rules.Slot) {
	t.Helper()
	s, w = newStream(), rules.New()
	feed(s, w, config(simPool, 2, 1))
	feed(s, w, claim(slotKey(simPool, 0), entry.SlotValue{Lease: leaseID(1), Incarnation: 1, TTL: entry.Span(10 * time.Second)}))
	return s, w, w.Pool(simPool).Slot(0)
}

// feed writes an entry over what is there, and shows it to the world.
func feed(s *stream, w *rules.World, e entry.Entry) uint64 {
	revision, _ := s.write(e, s.revision(e.Key))
	w.Apply(s.log[revision-1], s.instant(), 0)
	return revision
}

func renewal(slot *rules.Slot) entry.Entry {
	v := slot.Value
	v.Fence = slot.Fence
	return claim(slotKey(slot.Pool.ID, slot.Position), v)
}

func wantDue(t *testing.T, w *rules.World, want rules.Instant) {
	t.Helper()
	if at, ok := w.NextDue(); !ok || at != want {
		t.Errorf("due at %v, %v; want %v", time.Duration(at), ok, time.Duration(want))
	}
}

func TestPromise(t *testing.T) {
	s, w, slot := lent(t)
	start := s.instant()
	wantDue(t, w, start.Add(10*time.Second+rules.Slack))
	w.EndAt(slot, slot.Revision, start.Add(9*time.Second))
	wantDue(t, w, start.Add(9*time.Second))
	if slot.Ended(start.Add(9*time.Second-1)) || !slot.Ended(start.Add(9*time.Second)) {
		t.Error("it does not end as promised")
	}

	// A renewal in time; what was promised before is of no more account.
	s.now += 8 * time.Second
	feed(s, w, renewal(slot))
	if !slot.InTime() {
		t.Error("a renewal before the promised end is not in time")
	}
	if slot.Ended(start.Add(9 * time.Second)) {
		t.Error("it ends as promised before it was renewed")
	}
	wantDue(t, w, start.Add(18*time.Second+rules.Slack))

	// A renewal after the promised end, and one of which nothing was promised.
	w.EndAt(slot, slot.Revision, start.Add(9*time.Second))
	s.now += 2 * time.Second
	if feed(s, w, renewal(slot)); slot.InTime() {
		t.Error("a renewal after the promised end is in time")
	}
	if feed(s, w, renewal(slot)); slot.InTime() {
		t.Error("a renewal of a lease that another peer promised is in time, as far as this one can tell")
	}
}

func TestRebase(t *testing.T) {
	s, w := newStream(), rules.New()
	feed(s, w, config(simPool, 2, 1))
	old := s.time()
	for position := range 2 {
		e := claim(slotKey(simPool, position), entry.SlotValue{Lease: leaseID(position), Incarnation: 1, TTL: entry.Span(10 * time.Second)})
		revision, _ := s.write(e, 0)
		w.Apply(s.log[revision-1], s.instant(), time.Hour) // not known how old
	}
	now := s.instant().Add(time.Minute) // of a clock that has nothing to do with the stream's
	w.Rebase(old.Add(4*time.Second), now)
	wantDue(t, w, now.Add(6*time.Second+rules.Slack))
	slot := w.Pool(simPool).Slot(0)
	if slot.Ended(now.Add(6*time.Second-1)) || !slot.Ended(now.Add(6*time.Second)) {
		t.Error("it does not end six seconds later")
	}
	feed(s, w, marker(slotKey(simPool, 0)))
	feed(s, w, marker(slotKey(simPool, 1)))
	if at, ok := w.NextDue(); ok {
		t.Errorf("what is free is due at %v", at)
	}
	feed(s, w, alive(sessionID(1), 15*time.Second))
	w.Rebase(s.time().Add(5*time.Second), now)
	wantDue(t, w, now.Add(10*time.Second))
	w.Rebase(s.time().Add(-time.Minute), now) // the clocks differ
	wantDue(t, w, now.Add(15*time.Second))
}

// A session is forgotten with its end: ids are used once.
func TestSessionForgotten(t *testing.T) {
	s, w := newStream(), rules.New()
	key := ticketKey(simPool, sessionID(1), 0)
	feed(s, w, config(simPool, 0, 1))
	feed(s, w, alive(sessionID(1), time.Second))
	feed(s, w, ticket(key, leaseID(1), 1))
	if got := w.TicketsOf(sessionID(1)); len(got) != 1 || got[0].Key != key {
		t.Errorf("its tickets: %v", got)
	}
	feed(s, w, marker(sessionKey(sessionID(1))))
	if w.Session(sessionID(1)) != nil || w.TicketsOf(sessionID(1)) != nil || w.Pool(simPool).TicketAt(key) != nil {
		t.Error("it is still there")
	}

	// A ticket may come in after its session's end; it does not stand.
	feed(s, w, marker(key))
	feed(s, w, ticket(key, leaseID(1), 1))
	if w.Pool(simPool).Waiting() != 0 {
		t.Error("a dead session waits")
	}
	if feed(s, w, marker(key)); w.Session(sessionID(1)) != nil {
		t.Error("it has come back for good")
	}
}
