package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
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
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Acquire(ctx, one, r, 30*time.Second, 0)
	if err != nil || g.TTL != 30*time.Second || g.Fence == 0 {
		t.Fatal(g, err)
	}
	for name, c := range map[string]struct {
		call func() error
		want error
	}{
		"taken":         {func() error { _, err := c.Acquire(ctx, two, r, time.Minute, 0); return err }, kvslots.ErrNoSlot},
		"other terms":   {func() error { _, err := c.Acquire(ctx, two, other, time.Minute, 0); return err }, kvslots.ErrLimitMismatch},
		"not enqueued":  {func() error { _, err := c.Wait(ctx, two, r, 0); return err }, kvslots.ErrNotEnqueued},
		"unknown token": {func() error { return c.Release(ctx, two, r, "0123456789abcdef0123456789abcdef") }, kvslots.ErrNotHeld},
		"no session":    {func() error { return c.Ping(ctx, "../sessions") }, kvslots.ErrSessionGone},
		"gone":          {func() error { return c.Ping(ctx, "0123456789abcdef0123456789abcdef") }, kvslots.ErrSessionGone},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, acquired, err := c.Enqueue(ctx, two, r, time.Minute); err != nil || acquired {
		t.Fatal(acquired, err)
	}
	if _, _, err := c.Enqueue(ctx, two, r, time.Minute); !errors.Is(err, kvslots.ErrAlreadyEnqueued) {
		t.Fatal(err)
	}
	if left, err := c.Extend(ctx, one, r, g.Token, time.Minute); err != nil || left != time.Minute {
		t.Fatal(left, err)
	}
	if err := c.Release(ctx, one, r, g.Token); err != nil {
		t.Fatal(err)
	}
	next, err := c.Wait(ctx, two, r, 10*time.Second)
	if err != nil || next.Fence <= g.Fence {
		t.Fatal(next, err)
	}

	// A session that gives up leaves the line.
	gone, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := c.Acquire(gone, one, r, time.Minute, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := c.EndSession(ctx, two); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(ctx, one, r, time.Minute, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.EndSession(ctx, two); !errors.Is(err, kvslots.ErrSessionGone) {
		t.Fatal(err)
	}
	if err := c.Release(ctx, one, r, "no token"); !errors.As(err, new(*kvslots.RangeError)) {
		t.Fatal(err)
	}
}
