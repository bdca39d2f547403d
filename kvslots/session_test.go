package kvslots

import (
	"fmt"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func newSession(t testing.TB, s *Store, idle time.Duration) string {
	t.Helper()
	id, _, err := s.CreateSession(t.Context(), WithIdle(idle))
	natstest.Must(t, err)
	return id
}

// inLine waits until n sessions wait for r.
func inLine(t testing.TB, s *Store, r Resource, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d stand in line", n), func() bool { return len(statsOf(t, s, r).Waiters) == n })
}

// statsOf returns what is read of r; zero if no session holds it or waits for it.
func statsOf(t testing.TB, s *Store, r Resource) PoolDetail {
	t.Helper()
	stats, err := s.Stats(t.Context())
	natstest.Must(t, err)
	for _, name := range stats.Names {
		if name.Key == r.Key {
			return name
		}
	}
	return PoolDetail{}
}

func mustHold(t testing.TB, s *Store, session string, r Resource) Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), session, r, WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	return g
}

func mustLetGo(t *testing.T, s *Store, session string, r Resource, g Grant) {
	t.Helper()
	if err := s.Release(t.Context(), session, r, g.Token); err != nil {
		t.Errorf("release: %v", err)
	}
}

// A token is enough to extend and to release a lease.
func TestTokenWithoutASession(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	ctx, lock := t.Context(), Lock("deploy")
	g, err := peers[0].Acquire(ctx, newSession(t, peers[0], time.Minute), lock, WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	if left, err := peers[1].RenewGrant(ctx, "", lock, g.Token, 30*time.Second); err != nil || left != 30*time.Second {
		t.Fatal(left, err)
	}
	wantErr(t, peers[1].Release(ctx, "", Semaphore("deploy", 1), g.Token), ErrNotHeld)
	wantErr(t, peers[1].Release(ctx, "", Lock("other"), g.Token), ErrNotHeld)
	natstest.Must(t, peers[1].Release(ctx, "", lock, g.Token))
	wantErr(t, peers[0].Release(ctx, "", lock, g.Token), ErrNotHeld)
	_, err = peers[0].RenewGrant(ctx, "", lock, g.Token, time.Minute)
	wantErr(t, err, ErrNotHeld)
	_, err = peers[0].Acquire(ctx, "", lock, WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrSessionGone)
}
