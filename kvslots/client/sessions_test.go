package client_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestSessions(t *testing.T) {
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		for _, key := range []string{"rate", "a/b?c=%2F#ü", "..", "%"} {
			for _, r := range []kvslots.Resource{kvslots.Lock(key), kvslots.Semaphore("s"+key, 1)} {
				t.Run(r.Key, func(t *testing.T) { testSessions(t, c, r) })
			}
		}
	})
}

func testSessions(t *testing.T, c *client.Client, r kvslots.Resource) {
	ctx := t.Context()
	other := kvslots.Lock(r.Key)
	if r.Kind == kvslots.KindLock {
		other = kvslots.Semaphore(r.Key, 2)
	}
	one, idle, err := c.CreateSession(ctx)
	if err != nil || idle != 20*time.Second {
		t.Fatal(idle, err)
	}
	two, _, err := c.CreateSession(ctx)
	kvslotstest.Must(t, err)
	g, err := c.Acquire(ctx, one, r, kvslots.WithTTL(30*time.Second), kvslots.WithWait(0))
	if err != nil || g.TTL != 30*time.Second || g.Fence == 0 {
		t.Fatal(g, err)
	}
	for name, c := range map[string]struct {
		call func() error
		want error
	}{
		"taken": {func() error {
			_, err := c.Acquire(ctx, two, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
			return err
		}, kvslots.ErrNoSlot},
		"other terms": {func() error {
			_, err := c.Acquire(ctx, two, other, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
			return err
		}, kvslots.ErrLimitMismatch},
		"not enqueued":  {func() error { _, err := c.Wait(ctx, two, r, 0); return err }, kvslots.ErrNotEnqueued},
		"unknown token": {func() error { return c.Release(ctx, two, r, "0123456789abcdef0123456789abcdef") }, kvslots.ErrNotHeld},
		"no session":    {func() error { return c.Ping(ctx, "../sessions") }, kvslots.ErrSessionGone},
		"gone":          {func() error { return c.Ping(ctx, "0123456789abcdef0123456789abcdef") }, kvslots.ErrSessionGone},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, taken := c.Acquire(ctx, two, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	_, mismatch := c.Acquire(ctx, two, other, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	for err, want := range map[error]string{taken: "^" + regexp.QuoteMeta(r.Key) + ": taken by .+, for [0-9]+s; place 1 in the line$", mismatch: "^" + regexp.QuoteMeta(r.Key) + ": the key is in use .+: taken by .+, for [0-9]+s"} {
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, acquired, err := c.Enqueue(ctx, two, r, kvslots.WithTTL(time.Minute)); err != nil || acquired {
		t.Fatal(acquired, err)
	}
	if _, _, err := c.Enqueue(ctx, two, r, kvslots.WithTTL(time.Minute)); !errors.Is(err, kvslots.ErrAlreadyEnqueued) {
		t.Fatal(err)
	}
	if left, err := c.RenewGrant(ctx, one, r, g.Token, time.Minute); err != nil || left != time.Minute {
		t.Fatal(left, err)
	}
	kvslotstest.Must(t, c.Release(ctx, one, r, g.Token))
	next, err := c.Wait(ctx, two, r, 10*time.Second)
	if err != nil || next.Fence <= g.Fence {
		t.Fatal(next, err)
	}

	// A session that gives up leaves the line.
	gone, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := c.Acquire(gone, one, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	kvslotstest.Must(t, c.EndSession(ctx, two))
	kvslotstest.Must(t, kvslotstest.Err(c.Acquire(ctx, one, r, kvslots.WithTTL(time.Minute), kvslots.WithWait(10*time.Second))))
	if err := c.EndSession(ctx, two); !errors.Is(err, kvslots.ErrSessionGone) {
		t.Fatal(err)
	}
	if err := c.Release(ctx, one, r, "no token"); !errors.As(err, new(*kvslots.RangeError)) {
		t.Fatal(err)
	}
}

// A session lives as long as the longest ttl that it holds, as far as the gateway allows.
func TestSessionCoversItsLeases(t *testing.T) {
	overEach(t, func(t *testing.T, _ *gateways, c *client.Client) {
		session := newSession(t, c)
		for ttl, want := range map[time.Duration]time.Duration{
			0: kvslots.DefaultLeaseTTL, 10 * time.Minute: 10 * time.Minute, 30 * time.Minute: 30 * time.Minute, 3 * time.Hour: time.Hour,
		} {
			var opts []kvslots.Option
			if ttl > 0 {
				opts = append(opts, kvslots.WithTTL(ttl))
			}
			m := session.Mutex(ttl.String(), opts...)
			kvslotstest.Must(t, m.Lock(t.Context()))
			if got := m.TTL(); got != want {
				t.Errorf("asked for %v: %v", ttl, got)
			}
			if err := m.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			if err := m.Unlock(t.Context()); !errors.Is(err, kvslots.ErrNotHeld) {
				t.Errorf("unlocked twice: %v", err)
			}
		}
	})
}

// A canceled Lock leaves the line at once.
func TestCanceledLockLeavesTheLine(t *testing.T) {
	overEach(t, func(t *testing.T, g *gateways, c *client.Client) {
		holder, session := newSession(t, c), newSession(t, c)
		m := holder.Mutex("x")
		kvslotstest.Must(t, m.Lock(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- session.Mutex("x").Lock(ctx) }()
		waiting := func() int {
			detail, err := g.store.ReadPool(t.Context(), kvslots.ByName("x"), kvslots.DetailPage{})
			kvslotstest.Must(t, err)
			return detail.Waiting
		}
		kvslotstest.Eventually(t, "the lock waits", func() bool { return waiting() == 1 })
		cancel(errGone)
		if err := <-ended; !errors.Is(err, errGone) {
			t.Errorf("got %v", err)
		}
		kvslotstest.Eventually(t, "the line is empty", func() bool { return waiting() == 0 })
		if err := m.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := holder.Mutex("x").TryLock(t.Context()); err != nil {
			t.Errorf("the lock is not free at once: %v", err)
		}
	})
}
