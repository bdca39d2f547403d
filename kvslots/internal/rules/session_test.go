package rules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func wantClients(t *testing.T, w *rules.World, all int, from ...int) {
	t.Helper()
	if w.Clients != all {
		t.Errorf("%d clients, want %d", w.Clients, all)
	}
	for i, want := range from {
		if got := w.ClientsFrom(originID(i)); got != want {
			t.Errorf("%d clients from %d, want %d", got, i, want)
		}
	}
}

func TestClientsAreCounted(t *testing.T) {
	s, w := newStream(), rules.New()
	from := func(n, origin int) entry.Entry {
		e := client(sessionID(n))
		e.Session.Origin = originID(origin)
		return e
	}
	feed(s, w, alive(sessionID(0)))
	feed(s, w, from(1, 0))
	feed(s, w, from(2, 0))
	feed(s, w, client(sessionID(3))) // from nowhere
	wantClients(t, w, 3, 2, 0)
	feed(s, w, from(1, 0)) // refreshed
	feed(s, w, from(2, 1)) // from elsewhere by now
	wantClients(t, w, 3, 1, 1)
	feed(s, w, corrupt(rules.SessionKey(sessionID(1))))
	feed(s, w, marker(rules.SessionKey(sessionID(2))))
	feed(s, w, marker(rules.SessionKey(sessionID(2))))
	wantClients(t, w, 1, 0, 0)
	feed(s, w, alive(sessionID(3)))
	wantClients(t, w, 0)
	peers := 0
	w.Peers(func(*rules.Session) bool { peers++; return true })
	if peers != 2 {
		t.Errorf("%d peers, want 2", peers)
	}
}

func TestEnded(t *testing.T) {
	s, w := newStream(), rules.New()
	id := sessionID(1)
	feed(s, w, client(id))
	if w.EndedBefore(id, 9) || !w.Alive(id) {
		t.Error("it has ended, and is alive")
	}
	end := feed(s, w, marker(rules.SessionKey(id)))
	if w.Alive(id) || w.EndedBefore(id, end) || !w.EndedBefore(id, end+1) {
		t.Error("it has not ended where it did")
	}
	w.Forget(s.instant().Add(rules.MarkerTTL))
	if !w.EndedBefore(id, end+1) {
		t.Error("its end is forgotten too soon")
	}
	if w.Forget(s.instant().Add(rules.MarkerTTL + 1)); w.EndedBefore(id, end+1) {
		t.Error("its end is not forgotten")
	}
}

// A session's end ends its leases and its tickets at once; it is forgotten when the
// last of what it left has gone.
func TestSessionEnd(t *testing.T) {
	s, w, p := lent(t, 0)
	id, key := sessionID(1), ticketKey(poolID(1), sessionID(1), 0)
	feed(s, w, client(id))
	feed(s, w, claim(0, entry.SlotValue{Lease: leaseID(1), Session: id}))
	feed(s, w, ticket(key, leaseID(2), 1))
	held := w.Session(id)
	if len(held.Slots) != 1 || len(held.Tickets) != 1 || p.InUse() != 1 || p.Waiting() != 1 {
		t.Errorf("it has %d slots, %d tickets", len(held.Slots), len(held.Tickets))
	}
	feed(s, w, marker(rules.SessionKey(id)))
	if p.InUse() != 0 || p.Waiting() != 0 || !p.Slot(0).Stale() {
		t.Error("what it held is still held")
	}
	due := w.Due(time.Second, 9, nil, s.instant().Add(time.Second))
	if len(due) != 2 || slices.ContainsFunc(due, func(d rules.Due) bool { return !d.Garbage }) {
		t.Errorf("due: %+v, want the slot and the ticket as garbage", due)
	}
	feed(s, w, marker(key))
	feed(s, w, marker(rules.SlotKey(p.ID, 0)))
	if w.Session(id) == nil {
		t.Error("it is forgotten before its marker has gone")
	}
	if w.Forget(s.instant().Add(time.Hour)); w.Session(id) != nil {
		t.Error("it is not forgotten")
	}

	feed(s, w, ticket(key, leaseID(3), 1)) // what comes behind its end does not stand
	if p.Waiting() != 0 {
		t.Error("a session that has ended waits")
	}
	if feed(s, w, marker(key)); w.Session(id) != nil {
		t.Error("it has come back for good")
	}
}
