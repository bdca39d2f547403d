package rules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func wantClients(t *testing.T, v *rules.View, all int, from ...int) {
	t.Helper()
	if v.Clients != all {
		t.Errorf("%d clients, want %d", v.Clients, all)
	}
	for i, want := range from {
		if got := v.ClientsFrom(originID(i)); got != want {
			t.Errorf("%d clients from %d, want %d", got, i, want)
		}
	}
}

func TestClientsAreCounted(t *testing.T) {
	s, v := newStream(), newView()
	from := func(n, origin int) entry.Entry {
		e := client(sessionID(n))
		e.Session.Origin = originID(origin)
		return e
	}
	feed(s, v, alive(sessionID(0)))
	feed(s, v, from(1, 0))
	feed(s, v, from(2, 0))
	feed(s, v, client(sessionID(3))) // removed an origin
	wantClients(t, v, 3, 2, 0)
	feed(s, v, from(1, 0)) // refreshed
	feed(s, v, from(2, 1)) // with another origin
	wantClients(t, v, 3, 1, 1)
	feed(s, v, corrupt(rules.SessionKey(sessionID(1))))
	feed(s, v, marker(rules.SessionKey(sessionID(2))))
	feed(s, v, marker(rules.SessionKey(sessionID(2))))
	wantClients(t, v, 1, 0, 0)
	feed(s, v, alive(sessionID(3)))
	wantClients(t, v, 0)
	peers := 0
	v.Peers(func(*rules.Session) bool { peers++; return true })
	if peers != 2 {
		t.Errorf("%d peers, want 2", peers)
	}
}

// A session's end ends its leases and tickets at once. The view forgets the session when
// its slots, tickets and marker are gone.
func TestSessionEnd(t *testing.T) {
	s, v, p := lent(t, 0)
	id, key := sessionID(1), ticketKey(poolID(1), sessionID(1), 0)
	feed(s, v, client(id))
	feed(s, v, claim(0, entry.SlotValue{Lease: leaseID(1), Session: id}))
	feed(s, v, ticket(key, leaseID(2), 1))
	held := v.Session(id)
	if len(held.Slots) != 1 || len(held.Tickets) != 1 || p.InUse() != 1 || p.Waiting() != 1 {
		t.Errorf("the session has %d slots, %d tickets", len(held.Slots), len(held.Tickets))
	}
	feed(s, v, marker(rules.SessionKey(id)))
	if p.InUse() != 0 || p.Waiting() != 0 || !p.Slot(0).Orphaned() {
		t.Error("a slot of the session is still live")
	}
	due := v.Due(time.Second, 9, s.instant().Add(time.Second))
	if len(due) != 2 || slices.ContainsFunc(due, func(d rules.DueKey) bool { return !d.Garbage }) {
		t.Errorf("due: %+v, want the slot and the ticket as garbage", due)
	}
	feed(s, v, marker(key))
	feed(s, v, marker(rules.SlotKey(p.ID, 0)))
	if v.Session(id) == nil {
		t.Error("the session is forgotten before its marker has expired")
	}
	if v.Forget(s.instant().Add(time.Hour)); v.Session(id) != nil {
		t.Error("the session is not forgotten")
	}

	feed(s, v, ticket(key, leaseID(3), 1)) // a ticket after the session's end does not stand
	if p.Waiting() != 0 {
		t.Error("a ticket of a session that has ended stands")
	}
	if feed(s, v, marker(key)); v.Session(id) != nil {
		t.Error("the session was created again and not forgotten")
	}
}

// A refresh was sent while the stream had no leader, and is delivered after a new watch has
// given every session its whole idle time again. It does not end the session soon after.
func TestLateRefreshDoesNotMoveEndBack(t *testing.T) {
	s, v := newStream(), newView()
	refresh := func(idled time.Duration) {
		e := client(sessionID(1))
		e.Session.Idled = entry.Span(idled)
		feed(s, v, e)
	}
	wantEnd := func(want rules.Instant) {
		t.Helper()
		if got := v.Session(sessionID(1)).Ends; got != want {
			t.Errorf("the session ends at %v, want %v", time.Duration(got), time.Duration(want))
		}
		wantDue(t, v, want)
	}
	refresh(0)
	s.now += 14 * time.Second
	whole := s.instant().Add(15 * time.Second)
	v.Postpone(s.instant())
	refresh(14 * time.Second)
	wantEnd(whole)
	if due := v.Due(time.Second, 9, s.instant().Add(2*time.Second)); len(due) != 0 {
		t.Errorf("due: %+v, want nothing yet", due)
	}
	s.now += time.Second
	refresh(0)
	wantEnd(whole.Add(time.Second))
}
