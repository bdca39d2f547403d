package kvslots

import (
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

// newIdleHolder creates a session that holds r, and is idle from then on. It returns a time
// before the session's last use. If the machine pauses for the idle time, it tries again.
func newIdleHolder(t testing.TB, s *Store, idle time.Duration, r Resource) (session string, held Grant, used time.Time) {
	t.Helper()
	for {
		session, used = newSession(t, s, idle), time.Now()
		var err error
		if held, err = s.Acquire(t.Context(), session, r, WithTTL(time.Minute), WithWait(time.Minute)); err == nil {
			return session, held, used
		}
		wantErr(t, err, ErrSessionGone)
	}
}

func TestSessionHoldsLock(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	a, b := peers[0], peers[1]
	ctx := t.Context()
	one, two := newSession(t, a, time.Minute), newSession(t, b, time.Minute)
	g, err := a.Acquire(ctx, one, Lock("deploy"), WithTTL(time.Minute), WithWait(0))
	if err != nil || len(g.Token) != 32 || g.TTL != time.Minute {
		t.Fatal(g, err)
	}
	_, err = b.Acquire(ctx, two, Lock("deploy"), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrNoSlot)
	_, err = b.Acquire(ctx, two, Semaphore("deploy", 1), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrLimitMismatch)
	if left, err := b.Extend(ctx, two, Lock("deploy"), g.Token, 30*time.Second); err != nil || left != 30*time.Second {
		t.Fatal(left, err)
	}
	wantErr(t, b.Release(ctx, two, Semaphore("deploy", 1), g.Token), ErrNotHeld)
	natstest.Must(t, b.Release(ctx, two, Lock("deploy"), g.Token))
	wantErr(t, a.Release(ctx, one, Lock("deploy"), g.Token), ErrNotHeld)
	natstest.Must(t, natstest.Err(b.Acquire(ctx, two, Semaphore("deploy", 2), WithTTL(time.Minute), WithWait(0))))
	natstest.Must(t, b.EndSession(ctx, two))
	wantErr(t, a.EndSession(ctx, two), ErrSessionGone)
	wantErr(t, a.Ping(ctx, two), ErrSessionGone)
	g, err = a.Acquire(ctx, one, Lock("deploy"), WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
}

// A token is enough to extend and to release a lease.
func TestTokenWithoutASession(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	ctx, lock := t.Context(), Lock("deploy")
	g, err := peers[0].Acquire(ctx, newSession(t, peers[0], time.Minute), lock, WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	if left, err := peers[1].Extend(ctx, "", lock, g.Token, 30*time.Second); err != nil || left != 30*time.Second {
		t.Fatal(left, err)
	}
	wantErr(t, peers[1].Release(ctx, "", Semaphore("deploy", 1), g.Token), ErrNotHeld)
	wantErr(t, peers[1].Release(ctx, "", Lock("other"), g.Token), ErrNotHeld)
	natstest.Must(t, peers[1].Release(ctx, "", lock, g.Token))
	wantErr(t, peers[0].Release(ctx, "", lock, g.Token), ErrNotHeld)
	_, err = peers[0].Extend(ctx, "", lock, g.Token, time.Minute)
	wantErr(t, err, ErrNotHeld)
	_, err = peers[0].Acquire(ctx, "", lock, WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrSessionGone)
}

func TestEnqueueAndWait(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 3)
	ctx := t.Context()
	holder, waiter := newSession(t, peers[0], time.Minute), newSession(t, peers[1], time.Minute)
	g, acquired, err := peers[0].Enqueue(ctx, holder, Lock("k"), WithTTL(time.Minute))
	if err != nil || !acquired {
		t.Fatal(g, acquired, err)
	}
	same, err := peers[1].Wait(ctx, holder, Lock("k"), 0)
	if err != nil || same.Token != g.Token {
		t.Fatal(same, err)
	}
	_, err = peers[1].Wait(ctx, holder, Lock("k"), 0)
	wantErr(t, err, ErrNotEnqueued)

	queued, acquired, err := peers[1].Enqueue(ctx, waiter, Lock("k"), WithTTL(time.Minute))
	if err != nil || acquired {
		t.Fatal(queued, acquired, err)
	}
	for _, p := range peers {
		_, _, err = p.Enqueue(ctx, waiter, Lock("k"), WithTTL(time.Minute))
		wantErr(t, err, ErrAlreadyEnqueued)
	}
	done := make(chan error)
	var got Grant
	go func() {
		var err error
		got, err = peers[2].Wait(ctx, waiter, Lock("k"), time.Minute)
		done <- err
	}()
	natstest.Must(t, peers[0].Release(ctx, holder, Lock("k"), g.Token))
	natstest.Must(t, <-done)
	if got.Fence <= g.Fence {
		t.Fatal("fences", got.Fence, g.Fence)
	}
	natstest.Must(t, peers[0].Release(ctx, waiter, Lock("k"), got.Token))
	_, err = peers[0].Wait(ctx, waiter, Lock("k"), 0)
	wantErr(t, err, ErrNotEnqueued)
}

func TestWaitTimesOut(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	ctx := t.Context()
	holder, waiter := newSession(t, peers[0], time.Minute), newSession(t, peers[1], time.Minute)
	natstest.Must(t, natstest.Err(peers[0].Acquire(ctx, holder, Semaphore("k", 1), WithTTL(time.Minute), WithWait(0))))
	if _, _, err := peers[0].Enqueue(ctx, waiter, Semaphore("k", 1), WithTTL(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err := peers[1].Wait(ctx, waiter, Semaphore("k", 1), 50*time.Millisecond)
	wantErr(t, err, ErrNoSlot)
	_, err = peers[0].Wait(ctx, waiter, Semaphore("k", 1), 50*time.Millisecond)
	wantErr(t, err, ErrNotEnqueued)
}

func TestPromotedUnseen(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	ctx := t.Context()
	holder, waiter := newSession(t, peers[0], time.Minute), newSession(t, peers[1], time.Minute)
	g, err := peers[0].Acquire(ctx, holder, Lock("k"), WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	if _, _, err := peers[1].Enqueue(ctx, waiter, Lock("k"), WithTTL(time.Second)); err != nil {
		t.Fatal(err)
	}
	natstest.Must(t, peers[0].Release(ctx, holder, Lock("k"), g.Token))
	eventually(t, "the waiter's lease ends, for which it left the line", func() bool {
		stats, err := peers[0].Stats(ctx)
		return err == nil && len(stats.Names) == 0
	})
	_, err = peers[0].Wait(ctx, waiter, Lock("k"), 0)
	wantErr(t, err, ErrLeaseExpired)
	_, err = peers[1].Wait(ctx, waiter, Lock("k"), 0)
	wantErr(t, err, ErrNotEnqueued)
}

func TestIdleSessionEnds(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	ctx := t.Context()
	waiter := newSession(t, peers[1], time.Minute)
	idle, _, used := newIdleHolder(t, peers[0], time.Second, Lock("k"))
	natstest.Must(t, natstest.Err(peers[1].Acquire(ctx, waiter, Lock("k"), WithTTL(time.Minute), WithWait(time.Minute))))
	t.Logf("granted %v after the deadline", time.Since(used)-time.Second)
	if late := time.Since(used) - time.Second; late < 0 {
		t.Fatal("too early:", late)
	}
	wantErr(t, peers[0].Ping(ctx, idle), ErrSessionGone)
}
