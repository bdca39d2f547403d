package kvslots

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// endAll ends all sessions of clients.
func endAll(t testing.TB, s *Store, sessions ...string) {
	t.Helper()
	for _, id := range sessions {
		if err := s.EndSession(context.Background(), id); err != nil {
			t.Error(err)
		}
	}
}

// noRemains checks that nothing is held or waited for, neither in the bucket nor in the
// memory of a peer.
func noRemains(t *testing.T, srv *natstest.Server, stores ...*Store) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(liveKeys(t, srv.Connect()), "\n"))
			for _, s := range stores {
				t.Log(remains(s), counters(s))
			}
		}
	}()
	nc := srv.Connect()
	eventually(t, "the bucket has no slot, no ticket and no client's session", func() bool { return len(liveKeys(t, nc)) == 0 })
	for _, s := range stores {
		eventually(t, "a peer is at rest", func() bool { return remains(s) == "" })
	}
	for _, s := range stores {
		stats, err := s.Stats(t.Context())
		if err != nil || stats.Sessions != 0 || len(stats.Names) != 0 {
			t.Errorf("stats: %+v, %v", stats, err)
		}
	}
}

// liveKeys returns the keys of slots, tickets and clients' sessions in the bucket.
func liveKeys(t *testing.T, nc *nats.Conn) (keys []string) {
	t.Helper()
	for _, m := range everything(t, nc) {
		kind := m.Entry.Key.Kind
		if !m.Entry.Marker && (kind == entry.Slot || kind == entry.Ticket || kind == entry.Session && m.Entry.Session.Kind == entry.SessionClient) {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// everything returns all entries of the bucket.
func everything(t testing.TB, nc *nats.Conn) (all []fetched) {
	t.Helper()
	for from := uint64(1); ; from = all[len(all)-1].Entry.Revision + 1 {
		found, err := fetch(t.Context(), nc, from, 1000)
		for errors.Is(err, context.DeadlineExceeded) { // the machine has paused for a second
			found, err = fetch(t.Context(), nc, from, 1000)
		}
		natstest.Must(t, err)
		if all = append(all, found...); len(found) == 0 {
			return all
		}
	}
}

// remains describes the pending work of a peer; "" means none.
func remains(s *Store) (text string) {
	s.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) { text = p.Remains() })
	return text
}

// counters returns the counters of a peer.
func counters(s *Store) (c peer.Counters) {
	s.bucket.WithPeer(func(p *peer.Peer, _ peer.Instant) { c = p.Counters() })
	return c
}
