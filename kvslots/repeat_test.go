package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// A repeat is answered with the same lease by the same Store, by another one, and by one that
// was opened after all others had closed.
func TestRequestKeyAtAnyStore(t *testing.T) {
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 2)
	ctx, pool := t.Context(), uuid.New()
	natstest.Must(t, natstest.Err(peers[0].Register(ctx, pool, 3)))
	key := WithRequestKey("job 17")
	first, err := peers[0].Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), key)
	natstest.Must(t, err)
	again := func(s *Store) *Lease {
		t.Helper()
		l, err := s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), key)
		natstest.Must(t, err)
		if l.ID() != first.ID() || l.Fence() != first.Fence() || l.Position() != first.Position() || l.TTL() > time.Minute {
			t.Errorf("borrowed %v at %d under fence %d for %v, and before %v at %d under fence %d",
				l.ID(), l.Position(), l.Fence(), l.TTL(), first.ID(), first.Position(), first.Fence())
		}
		return l
	}
	again(peers[0])
	again(peers[1])
	_, err = peers[1].Borrow(ctx, pool, WithFixedTTL(2*time.Minute), WithWait(0), key)
	wantErr(t, err, ErrKeyReused)
	other, err := peers[1].Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), WithRequestKey("job 18"))
	if err != nil || other.ID() == first.ID() || other.Position() != 1 {
		t.Fatalf("with another key: %+v, %v", other, err)
	}
	for _, s := range peers {
		natstest.Must(t, s.Close(context.Background()))
	}
	last := openPeers(t, srv, 1)[0]
	l := again(last)
	if ok, err := last.Return(ctx, pool, l.ID()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	fresh, err := last.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), key)
	if err != nil || fresh.ID() == first.ID() || fresh.Fence() <= first.Fence() {
		t.Errorf("after the return: %+v, %v", fresh, err)
	}
}

// The lease of a key is known only to who knows the pool and the key.
func TestLeasesOfOneKeyDiffer(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	ids := map[uuid.UUID]bool{}
	for range 3 {
		pool := uuid.New()
		natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 1)))
		for range 2 {
			l, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0), WithRequestKey("k"))
			natstest.Must(t, err)
			if ids[l.ID()] || l.ID().Version() != 4 || l.ID().Variant() != uuid.RFC4122 {
				t.Errorf("lease %v", l.ID())
			}
			ids[l.ID()] = true
			natstest.Must(t, natstest.Err(l.Return(t.Context())))
		}
	}
}

func TestRequestKeysOfLocks(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	a, b := peers[0], peers[1]
	ctx, key := t.Context(), WithRequestKey("k")
	one, two := newSession(t, a, time.Minute), newSession(t, a, time.Minute)
	on := Semaphore("s", 4)
	g, err := a.Acquire(ctx, one, on, WithTTL(time.Minute), WithWait(0), key)
	natstest.Must(t, err)
	again, err := b.Acquire(ctx, one, on, WithTTL(time.Minute), WithWait(0), key)
	if err != nil || again.Token != g.Token || again.TTL > time.Minute {
		t.Errorf("acquired %+v, then %+v, %v", g, again, err)
	}
	if o, err := b.Acquire(ctx, two, on, WithTTL(time.Minute), WithWait(0), key); err != nil || o.Token == g.Token {
		t.Errorf("another session acquired %+v, %v", o, err)
	}
	if err := b.Release(ctx, one, on, again.Token); err != nil {
		t.Error(err)
	}

	first, err := a.LockOwned(ctx, "l", "me", WithTTL(time.Minute), WithWait(0), key)
	natstest.Must(t, err)
	second, err := b.LockOwned(ctx, "l", "me", WithTTL(time.Minute), WithWait(0), key)
	if err != nil || second.Fence != first.Fence {
		t.Fatalf("locked %+v, then %+v, %v", first, second, err)
	}
	_, err = b.LockOwned(ctx, "l", "you", WithTTL(time.Minute), WithWait(0), key)
	wantErr(t, err, ErrNoSlot)
	if ok, err := b.UnlockOwned(ctx, second); err != nil || !ok {
		t.Error(ok, err)
	}
}

func TestRequestKeyIsChecked(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	for _, key := range []string{"a\n", "ü", string(make([]byte, MaxRequestKey+1)), "\x7f"} {
		_, err := s.Borrow(t.Context(), uuid.New(), WithFixedTTL(time.Minute), WithWait(0), WithRequestKey(key))
		if _, ok := err.(*RangeError); !ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}
