package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

func TestClientSessions(t *testing.T) {
	c, _ := dial(t)
	ctx, r := t.Context(), kvslots.Semaphore("rate", 1)
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
		"other terms":   {func() error { _, err := c.Acquire(ctx, two, kvslots.Lock("rate"), time.Minute, 0); return err }, kvslots.ErrLimitMismatch},
		"not enqueued":  {func() error { _, err := c.Wait(ctx, two, r, 0); return err }, kvslots.ErrNotEnqueued},
		"unknown token": {func() error { return c.Release(ctx, two, r, "0123456789abcdef0123456789abcdef") }, kvslots.ErrNotHeld},
		"gone":          {func() error { return c.Ping(ctx, "0123456789abcdef0123456789abcdef") }, kvslots.ErrSessionGone},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, acquired, err := c.Enqueue(ctx, two, r, time.Minute); err != nil || acquired {
		t.Fatal(acquired, err)
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

	// One who gives up leaves the line.
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
}
