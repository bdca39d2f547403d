package kvslots

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// endAll ends sessions that are still there, the ones with a client of a test.
func endAll(t testing.TB, s *Store, sessions ...string) {
	t.Helper()
	for _, id := range sessions {
		if err := s.EndSession(context.Background(), id); err != nil {
			t.Error(err)
		}
	}
}

// noRemains checks that nobody holds or waits for anything any more: neither in
// the bucket nor in a peer's memory.
func noRemains(t *testing.T, srv *kvslotstest.Server, stores ...*Store) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(liveKeys(t, srv.Connect()), "\n"))
			for _, s := range stores {
				t.Log(s.bucket.remains(), s.bucket.dump())
			}
		}
	}()
	nc := srv.Connect()
	eventually(t, "the bucket has no slot, no ticket and no client's session", func() bool { return len(liveKeys(t, nc)) == 0 })
	for _, s := range stores {
		eventually(t, "a peer is at rest", func() bool { return s.bucket.remains() == "" })
	}
	for _, s := range stores {
		stats, err := s.Stats(t.Context())
		if err != nil || stats.Sessions != 0 || len(stats.Names) != 0 {
			t.Errorf("stats: %+v, %v", stats, err)
		}
	}
}

// liveKeys are the slots, the tickets and the clients' sessions in the bucket.
func liveKeys(t *testing.T, nc *nats.Conn) (keys []string) {
	t.Helper()
	for from := uint64(1); ; {
		found, err := getBatch(nc, from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found {
			key := strings.TrimPrefix(m.subject, subjectPrefix)
			e := entry.Parse(key, m.sequence, m.at, m.header.Get, m.data)
			kind := e.Key.Kind
			if !e.Marker && (kind == entry.Slot || kind == entry.Ticket || kind == entry.Session && e.Session.Kind == entry.SessionClient) {
				keys = append(keys, key)
			}
			from = m.sequence + 1
		}
		if len(found) == 0 {
			return keys
		}
	}
}

// remains tells what a peer has still in mind. The names of tickets that can be
// used again do not count: they go when their markers do.
func (b *bucket) remains() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	busy := 0
	for _, lp := range b.locals {
		if _, idle := b.idle[lp]; !idle || len(lp.all())+len(lp.promoting)+len(lp.fresh)+len(lp.flight.Claims)+len(lp.flight.Purges)+lp.flight.Joining > 0 {
			busy++
		}
	}
	var text strings.Builder
	for _, part := range []struct {
		what string
		n    int
	}{
		{"locals", busy},
		{"sessions", len(b.sessions)},
		{"awaits", len(b.awaits)},
		{"sessions being created", len(b.creating)},
		{"locals with claims", len(b.claiming)},
		{"questions", len(b.asked) + len(b.open)},
		{"orphans", len(b.orphans)},
		{"releases", b.releases},
	} {
		if part.n > 0 {
			fmt.Fprintf(&text, "%d %s ", part.n, part.what)
		}
	}
	return text.String()
}
