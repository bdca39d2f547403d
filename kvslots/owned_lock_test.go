package kvslots

import (
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func lockOwned(t testing.TB, s *Store, name, owner string, ttl, wait time.Duration) *OwnedLock {
	t.Helper()
	lock, err := s.LockOwned(t.Context(), name, owner, WithTTL(ttl), WithWait(wait))
	natstest.Must(t, err)
	return lock
}

func TestOwnedLock(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	a, b := peers[0], peers[1]
	ctx := t.Context()
	if status, err := b.OwnedStatus(ctx, "k"); err != nil || status.Held {
		t.Fatal(status, err)
	}
	wantErr(t, b.ReleaseOwned(ctx, "k", "ann"), ErrNotHeld)
	wantErr(t, b.ForceRelease(ctx, "k"), ErrNotHeld)

	lock := lockOwned(t, a, "k", "ann", time.Minute, 0)
	if lock.TTL != time.Minute || lock.Fence == 0 || time.Until(lock.ExpiresAt) > time.Minute {
		t.Errorf("%+v", lock)
	}
	for _, owner := range []string{"ann", "bob"} { // two calls of one owner exclude each other, too
		_, err := b.LockOwned(ctx, "k", owner, WithTTL(time.Minute), WithWait(0))
		wantErr(t, err, ErrNoSlot)
	}
	status, err := b.OwnedStatus(ctx, "k")
	if err != nil || !status.Held || status.Owner != "ann" || status.Fence != lock.Fence {
		t.Fatalf("%+v, %v", status, err)
	}
	if off := status.ExpiresAt.Sub(lock.ExpiresAt).Abs(); off > 2*time.Second {
		t.Errorf("expires %v, by its own peer %v", status.ExpiresAt, lock.ExpiresAt)
	}
	stats, err := b.Stats(ctx)
	if err != nil || len(stats.Names) != 1 || stats.Names[0].Dialect == "" || stats.Names[0].Key != "k" || len(stats.Names[0].Holders) != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}

	wantErr(t, b.ReleaseOwned(ctx, "k", "bob"), ErrNotOwner)
	natstest.Must(t, b.ReleaseOwned(ctx, "k", "ann"))
	for _, s := range peers {
		wantErr(t, s.ReleaseOwned(ctx, "k", "ann"), ErrAlreadyReleased)
		wantErr(t, s.ReleaseOwned(ctx, "k", "bob"), ErrNotHeld)
	}
	if released, err := a.UnlockOwned(ctx, lock); released || err != nil {
		t.Error(released, err)
	}
}

// UnlockOwned does not affect a later acquisition, even by the same owner.
func TestUnlockOwnedEndsOneAcquisition(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	a, b := peers[0], peers[1]
	ctx := t.Context()
	first := lockOwned(t, a, "k", "ann", time.Minute, 0)
	natstest.Must(t, b.ForceRelease(ctx, "k"))
	second := lockOwned(t, b, "k", "ann", time.Minute, 0)
	if second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
	if released, err := a.UnlockOwned(ctx, first); released || err != nil {
		t.Error(released, err)
	}
	if released, err := a.UnlockOwned(ctx, second); !released || err != nil {
		t.Error(released, err)
	}
	wantErr(t, b.ReleaseOwned(ctx, "k", "ann"), ErrAlreadyReleased) // as if the owner had released it
}

// Locks of owners, locks of sessions, and pools have separate namespaces.
func TestOwnedLocksAreApart(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	natstest.Must(t, natstest.Err(s.Acquire(t.Context(), newSession(t, s, time.Minute), Lock("k"), WithTTL(time.Minute), WithWait(0))))
	lockOwned(t, s, "k", "ann", time.Minute, 0)
	stats, err := s.Stats(t.Context())
	if err != nil || len(stats.Names) != 2 || stats.Names[0].Dialect == stats.Names[1].Dialect {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A lock that is not released ends at its time, and does not count as released.
func TestOwnedLockExpires(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	lock := lockOwned(t, peers[0], "k", "ann", time.Second, 0)
	lockOwned(t, peers[1], "k", "bob", time.Minute, time.Minute)
	if time.Now().Before(lock.ExpiresAt) {
		t.Error("taken before it had expired")
	}
	if released, err := peers[0].UnlockOwned(t.Context(), lock); released || err != nil {
		t.Error(released, err)
	}
	wantErr(t, peers[0].ReleaseOwned(t.Context(), "k", "ann"), ErrNotOwner)
}

// A peer that starts later learns from the markers which owner released a lock.
func TestReleaseIsRememberedByLaterPeers(t *testing.T) {
	srv := natstest.Start(t, "")
	s := openPeers(t, srv, 1)[0]
	lockOwned(t, s, "k", "ann", time.Minute, 0)
	natstest.Must(t, s.ReleaseOwned(t.Context(), "k", "ann"))
	later := openPeers(t, srv, 1)[0]
	wantErr(t, later.ReleaseOwned(t.Context(), "k", "ann"), ErrAlreadyReleased)
}

func TestOwnedRanges(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	ctx := t.Context()
	for _, c := range []struct {
		field string
		do    func() error
	}{
		{"key", func() error { _, err := s.LockOwned(ctx, "", "ann", WithTTL(time.Second), WithWait(0)); return err }},
		{"key", func() error { _, err := s.LockOwned(ctx, "a b", "ann", WithTTL(time.Second), WithWait(0)); return err }},
		{"key", func() error {
			_, err := s.LockOwned(ctx, strings.Repeat("x", MaxOwnedName+1), "ann", WithTTL(time.Second), WithWait(0))
			return err
		}},
		{"owner", func() error { _, err := s.LockOwned(ctx, "k", "", WithTTL(time.Second), WithWait(0)); return err }},
		{"owner", func() error {
			_, err := s.LockOwned(ctx, "k", strings.Repeat("x", MaxOwner+1), WithTTL(time.Second), WithWait(0))
			return err
		}},
		{"ttl", func() error { _, err := s.LockOwned(ctx, "k", "ann", WithTTL(time.Second-1), WithWait(0)); return err }},
		{"wait", func() error { _, err := s.LockOwned(ctx, "k", "ann", WithTTL(time.Second), WithWait(-1)); return err }},
		{"key", func() error { return s.ForceRelease(ctx, "") }},
		{"owner", func() error { return s.ReleaseOwned(ctx, "k", "") }},
		{"key", func() error { _, err := s.OwnedStatus(ctx, ""); return err }},
	} {
		if err := c.do(); !containsText(err, c.field+" must be ") {
			t.Errorf("%v, want one about %s", err, c.field)
		}
	}
	longest := lockOwned(t, s, strings.Repeat("x", MaxOwnedName), strings.Repeat("ö", MaxOwner/2), time.Second, 0)
	if released, err := s.UnlockOwned(ctx, longest); !released || err != nil {
		t.Error(released, err)
	}
}
