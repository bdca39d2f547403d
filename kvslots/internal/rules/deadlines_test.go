package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// lent returns a view with one pool and as many leases of ten seconds as given.
func lent(t *testing.T, leases int) (*stream, *rules.View, *rules.Pool) {
	t.Helper()
	s, v := newStream(), newView()
	feed(s, v, config(poolID(1), 4, 1))
	for i := range leases {
		feed(s, v, claim(i, entry.SlotValue{Lease: leaseID(i)}))
	}
	return s, v, v.Pool(poolID(1))
}

func wantDue(t *testing.T, v *rules.View, want rules.Instant) {
	t.Helper()
	if at, ok := v.NextDue(); !ok || at != want {
		t.Errorf("due at %v, %v; want %v", time.Duration(at), ok, time.Duration(want))
	}
}

func TestDueIsInOrderAndComesUpAgain(t *testing.T) {
	s, v, p := lent(t, 3)
	start := s.instant()
	for i, after := range []time.Duration{7, 5, 6} {
		v.EndAt(p.Slot(i), p.Slot(i).Revision, start.Add(after*time.Second))
	}
	now := start.Add(10 * time.Second)
	for _, want := range [][]int{{1, 2}, {0}, {}} { // two at a time
		due := v.Due(time.Second, 2, now)
		if len(due) != len(want) {
			t.Fatalf("%d are due, want %d", len(due), len(want))
		}
		for i, d := range due {
			if d.Slot != p.Slot(want[i]) || d.Revision != d.Slot.Revision || d.Garbage || d.Marker {
				t.Errorf("due: %+v, want slot %d", d, want[i])
			}
		}
	}
	wantDue(t, v, now.Add(time.Second))
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	if due := v.Due(time.Second, 9, now.Add(time.Second)); len(due) != 2 {
		t.Errorf("due again: %+v, want the two that are not purged", due)
	}
}

func TestEndAt(t *testing.T) {
	s, v, p := lent(t, 1)
	slot, start := p.Slot(0), s.instant()
	wantDue(t, v, start.Add(10*time.Second+rules.Slack))
	v.EndAt(slot, slot.Revision, start.Add(9*time.Second))
	wantDue(t, v, start.Add(9*time.Second))
	if slot.Ended(start.Add(9*time.Second-1)) || !slot.Ended(start.Add(9*time.Second)) || slot.Ends != start.Add(9*time.Second) {
		t.Error("it does not end when it was set to")
	}

	s.now += 8 * time.Second
	first, fence, renewed := slot.Revision, slot.Fence, slot.Value
	renewed.Fence = fence
	feed(s, v, claim(0, renewed))
	v.EndAt(slot, first, start) // ignored: the lease was renewed since
	wantDue(t, v, start.Add(18*time.Second+rules.Slack))
	if slot.Fence != fence || slot.Granted != start {
		t.Errorf("renewed, it has fence %d and began at %v", slot.Fence, slot.Granted)
	}
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	v.EndAt(slot, slot.Revision, start)
	if due := v.Due(time.Second, 9, start.Add(time.Minute)); len(due) != 0 {
		t.Errorf("a free slot is due: %+v", due)
	}
}

func TestHoldBackAndCountAnew(t *testing.T) {
	s, v, p := lent(t, 3)
	start := s.instant()
	ends := func(want ...time.Duration) {
		t.Helper()
		for i, d := range want {
			if got := p.Slot(i).Ends; got != start.Add(d) {
				t.Errorf("lease %d ends after %v, want %v", i, got.Sub(start), d)
			}
		}
	}
	v.EndAt(p.Slot(0), p.Slot(0).Revision, start.Add(2*time.Second))
	v.HoldBack(start.Add(5*time.Second), 100*time.Millisecond)
	ends(5*time.Second, 11100*time.Millisecond, 11100*time.Millisecond)

	v.CountAnew(p.Slot(1).Revision, start.Add(time.Second))
	ends(12*time.Second, 12*time.Second, 11100*time.Millisecond)
	v.CountAnew(p.Slot(2).Revision, start.Add(-time.Minute)) // ends none earlier
	ends(12*time.Second, 12*time.Second, 11100*time.Millisecond)
	wantDue(t, v, start.Add(11100*time.Millisecond))

	feed(s, v, config(p.ID, 4, 2)) // HoldBack does not postpone the sweeping of orphaned slots
	v.HoldBack(start.Add(time.Hour), 0)
	wantDue(t, v, start.Add(time.Second))
}

// Time without a leader does not count as idle time of a session, but a lease ends by
// the clock.
func TestPostpone(t *testing.T) {
	s, v, p := lent(t, 1)
	start := s.instant()
	feed(s, v, alive(sessionID(1)))
	feed(s, v, client(sessionID(2)))
	feed(s, v, client(sessionID(3)))
	feed(s, v, marker(rules.SessionKey(sessionID(3))))
	v.Postpone(start.Add(time.Hour))
	for i := range 2 {
		if got := v.Session(sessionID(i + 1)).Ends; got != start.Add(time.Hour+15*time.Second) {
			t.Errorf("session %d ends at %v", i+1, got)
		}
	}
	v.Postpone(start)
	if got := v.Session(sessionID(1)).Ends; got != start.Add(time.Hour+15*time.Second) {
		t.Errorf("postponed to an earlier instant: %v", got)
	}
	wantDue(t, v, p.Slot(0).Ends)
	due := v.Due(time.Second, 9, start.Add(time.Hour+15*time.Second))
	if len(due) != 3 || due[0].Slot == nil || due[1].Session == nil || due[2].Session == nil {
		t.Errorf("due: %+v; want the lease and two sessions", due)
	}
	v.EndOthers(sessionID(9), start)
	if got := v.Session(sessionID(1)).Ends; got != start {
		t.Errorf("another peer's presence ends at %v", got)
	}
	if got := v.Session(sessionID(2)).Ends; got == start {
		t.Error("a client's session ends with the other peers")
	}
}

// A marker that is too short is not due any more once it is forgotten.
func TestForgottenMarkerIsNotDue(t *testing.T) {
	s, v, p := lent(t, 1)
	feed(s, v, alive(sessionID(1)))
	feed(s, v, ticket(ticketKey(p.ID, sessionID(1), 0), leaseID(9), 1))
	for key := range s.last {
		if m := marker(key); key.Kind != entry.Config {
			m.TTL = rules.MarkerTTL
			feed(s, v, m)
		}
	}
	s.now += 2 * time.Second
	if due := v.Due(time.Second, 9, s.instant()); len(due) != 3 || !due[0].Marker || !due[1].Marker || !due[2].Marker {
		t.Fatalf("due: %+v; want three markers", due)
	}
	s.now += rules.MarkerTTL + 10*time.Second
	v.Forget(s.instant())
	if due := v.Due(time.Second, 9, s.instant()); len(due) != 0 {
		t.Errorf("due: %+v", due)
	}
}

// A marker that a server holds stands for a while, even if it is too old by a leader's clock
// that is ahead.
func TestMarkerStandsWhenItIsLoaded(t *testing.T) {
	s, v, p := lent(t, 1)
	key := rules.SlotKey(p.ID, 0)
	e := s.write(marker(key))
	loaded := s.instant()
	v.Apply(e, e.TTL+time.Minute, loaded)
	v.Forget(loaded.Add(10*time.Second - 1))
	if revision, _ := v.Latest(key); revision != e.Revision || !v.MarkerOld(key, loaded) {
		t.Errorf("the marker stands at %d, want %d; it may have expired", revision, e.Revision)
	}
	v.Forget(loaded.Add(10 * time.Second))
	if revision, _ := v.Latest(key); revision != 0 {
		t.Errorf("the marker stands at %d, and should be forgotten", revision)
	}
}

// The view believes the server that a free key is absent, but not that a taken one is.
func TestAbsent(t *testing.T) {
	s, v, p := lent(t, 1)
	feed(s, v, alive(sessionID(1)))
	feed(s, v, ticket(ticketKey(p.ID, sessionID(1), 0), leaseID(9), 1))
	keys := []entry.Key{rules.SlotKey(p.ID, 0), ticketKey(p.ID, sessionID(1), 0), rules.ConfigKey(p.ID)}
	for _, key := range keys {
		v.Found(key, 0, s.instant())
		if revision, taken := v.Latest(key); !taken || revision != s.last[key].Revision || v.MarkerOld(key, s.instant()) {
			t.Errorf("%s is taken, and was treated as absent", key)
		}
		feed(s, v, marker(key))
		if revision, taken := v.Latest(key); taken || revision != s.sequence || v.MarkerOld(key, s.instant()) {
			t.Errorf("%s has a marker at %d, and stands at %d", key, s.sequence, revision)
		}
		v.Found(key, 0, s.instant())
		if revision, _ := v.Latest(key); revision != 0 || !v.MarkerOld(key, s.instant()) {
			t.Errorf("the marker of %s was not forgotten", key)
		}
	}
	if v.Pool(p.ID) != nil || v.Pools() != 0 {
		t.Error("a pool without a key is not forgotten")
	}
	v.Found(keys[0], 0, s.instant())
}

func TestExpiring(t *testing.T) {
	s, v, p := lent(t, 1)
	end := s.instant().Add(10*time.Second + rules.Guard - 2*time.Second)
	for at, want := range map[rules.Instant]bool{end - 1: false, end: true} {
		if p.Slot(0).Expiring(at) != want || v.Expiring(rules.SlotKey(p.ID, 0), at) != want || v.Expiring(rules.ConfigKey(p.ID), at) {
			t.Errorf("%v before its physical end: want %v", end.Add(2*time.Second).Sub(at), want)
		}
	}
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	if v.Expiring(rules.SlotKey(p.ID, 0), end+rules.Instant(time.Hour)) {
		t.Error("a free key may be written to at any time")
	}
}
