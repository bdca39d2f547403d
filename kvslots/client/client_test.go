package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// peer is what a Store and a Client have in common.
type peer interface {
	Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error)
	Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error)
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error)
}

var _ = []peer{(*kvslots.Store)(nil), (*client.Client)(nil)}

// locker is what a Store and a Client have in common for sessions.
type locker interface {
	Ping(ctx context.Context, session string) error
	EndSession(ctx context.Context, session string) error
	Acquire(ctx context.Context, session string, r kvslots.Resource, ttl, wait time.Duration) (kvslots.Grant, error)
	Enqueue(ctx context.Context, session string, r kvslots.Resource, ttl time.Duration) (kvslots.Grant, bool, error)
	Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error)
	Release(ctx context.Context, session string, r kvslots.Resource, token string) error
	Extend(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (time.Duration, error)
}

var _ = []locker{(*kvslots.Store)(nil), (*client.Client)(nil)}

// dial opens a store, a gateway in front of it, and a client of that.
func dial(t *testing.T) (*client.Client, *gateway.Lending) {
	t.Helper()
	srv := kvslotstest.Start(t, "")
	store, err := kvslots.Open(t.Context(), srv.Connect(), kvslots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lending := gateway.NewLending()
	service, err := natsapi.Start(srv.Connect(nats.ReconnectBufSize(-1)), natsapi.Config{
		Pools: store, Sessions: store, Turns: gateway.NewTurns(), Lending: lending,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lending.Stop()
		if err := errors.Join(service.Close(context.Background()), store.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return client.Dial(srv.Connect()), lending
}

func TestClient(t *testing.T) {
	c, _ := dial(t)
	ctx, pool := t.Context(), uuid.New()
	if _, err := c.Inspect(ctx, pool); !errors.Is(err, kvslots.ErrNoPool) {
		t.Errorf("inspect: %v", err)
	}
	state, err := c.Register(ctx, pool, 1)
	if err != nil || state != (kvslots.State{Count: 1}) {
		t.Fatalf("register: %+v, %v", state, err)
	}
	before := time.Now()
	lease, err := c.Borrow(ctx, pool, 29500*time.Millisecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	if lease.Position() != 0 || lease.TTL() != 30*time.Second || lease.Fence() == 0 || lease.ID() == uuid.Nil {
		t.Errorf("borrowed %v for %v, fence %d", lease.Position(), lease.TTL(), lease.Fence())
	}
	if ends := lease.ExpiresAt(); ends.Before(before.Add(30*time.Second)) || ends.After(time.Now().Add(30*time.Second)) {
		t.Errorf("expires at %v", ends)
	}
	if _, err := c.Borrow(ctx, pool, time.Second, time.Second); !errors.Is(err, kvslots.ErrNoSlot) {
		t.Errorf("borrow: %v", err)
	}
	renewed, err := c.Renew(ctx, pool, lease.ID(), time.Minute)
	if err != nil || renewed.TTL() != time.Minute || renewed.Fence() != lease.Fence() {
		t.Errorf("renew: %+v, %v", renewed, err)
	}
	if err := lease.Renew(ctx, 2*time.Minute); err != nil || lease.TTL() != 2*time.Minute {
		t.Errorf("renew: %v, %v", lease.TTL(), err)
	}
	if state, err := c.Inspect(ctx, pool); err != nil || state != (kvslots.State{Count: 1, InUse: 1}) {
		t.Errorf("inspect: %+v, %v", state, err)
	}
	for _, want := range []bool{true, false} {
		if got, err := c.Return(ctx, pool, lease.ID()); got != want || err != nil {
			t.Errorf("return: %v, %v", got, err)
		}
	}
	if _, err := c.Renew(ctx, pool, lease.ID(), time.Minute); !errors.Is(err, kvslots.ErrNotHeld) {
		t.Errorf("renew: %v", err)
	}
	if err := errors.Join(c.Delete(ctx, pool), c.Delete(ctx, pool)); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.Return(ctx, pool, lease.ID()); !errors.Is(err, kvslots.ErrNoPool) {
		t.Errorf("return: %v", err)
	}
}

func TestClientRanges(t *testing.T) {
	c, _ := dial(t)
	ctx, pool := t.Context(), uuid.New()
	for field, call := range map[string]func() error{
		"count": func() error { _, err := c.Register(ctx, pool, 1001); return err },
		"ttl":   func() error { _, err := c.Borrow(ctx, pool, 0, 0); return err },
		"wait":  func() error { _, err := c.Borrow(ctx, pool, time.Second, -1); return err },
		"label": func() error {
			_, err := c.Borrow(ctx, pool, time.Second, 0, kvslots.WithLabel(strings.Repeat("x", 10000)))
			return err
		},
	} {
		wrong, ok := errors.AsType[*kvslots.RangeError](call())
		if !ok || wrong.Field != field || wrong.Range == "" {
			t.Errorf("%s: %+v", field, wrong)
		}
	}
}

// The time of a lease that was waited for starts when it was granted.
func TestClientWaits(t *testing.T) {
	c, _ := dial(t)
	ctx, pool := t.Context(), uuid.New()
	if _, err := c.Register(ctx, pool, 1); err != nil {
		t.Fatal(err)
	}
	short, err := c.Borrow(ctx, pool, time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Borrow(ctx, pool, 30*time.Second, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	granted := lease.ExpiresAt().Add(-lease.TTL())
	if granted.Before(short.ExpiresAt().Add(-100*time.Millisecond)) || granted.After(time.Now()) {
		t.Errorf("counted from %v, but the slot was free at %v and the answer came before %v", granted, short.ExpiresAt(), time.Now())
	}
}

// A client that gives up leaves the line, whether its lease was on its way or
// not, and however often.
func TestClientGivesUp(t *testing.T) {
	c, _ := dial(t)
	pool := uuid.New()
	if _, err := c.Register(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	errGone := errors.New("gone")
	waits := func(want int) {
		t.Helper()
		eventually(t, func() bool {
			state, err := c.Inspect(t.Context(), pool)
			return err == nil && state.Waiting == want && state.InUse == 0
		})
	}
	for range 10 {
		ctx, cancel := context.WithCancelCause(t.Context())
		told := make(chan error, 1)
		go func() {
			_, err := c.Borrow(ctx, pool, time.Minute, time.Minute)
			told <- err
		}()
		waits(1)
		cancel(errGone)
		if err := <-told; !errors.Is(err, errGone) {
			t.Fatalf("got %v", err)
		}
		waits(0)
	}
	if _, err := c.Register(t.Context(), pool, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // now the slot is free, and the answer crosses the cancellation
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*50*time.Microsecond, errGone)
		lease, err := c.Borrow(ctx, pool, 10*time.Minute, time.Minute)
		cancel()
		if err == nil {
			_, err = lease.Return(t.Context())
		}
		if err != nil && !errors.Is(err, errGone) {
			t.Fatal(err)
		}
	}
	waits(0)
}

func TestClientWithoutGateway(t *testing.T) {
	c := client.Dial(kvslotstest.Start(t, "").Connect())
	if _, err := c.Borrow(t.Context(), uuid.New(), time.Second, time.Second); !errors.Is(err, kvslots.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestClientOfADrainingGateway(t *testing.T) {
	c, lending := dial(t)
	pool := uuid.New()
	if _, err := c.Register(t.Context(), pool, 1); err != nil {
		t.Fatal(err)
	}
	lending.Stop()
	if _, err := c.Borrow(t.Context(), pool, time.Second, time.Second); !errors.Is(err, kvslots.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// Answers of somebody who is no gateway.
func TestClientOfNoGateway(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	nc := srv.Connect()
	for _, body := range []string{"", "null", "[]", `{"expires_in":5}`, `{"lease":"x"}`, `{"lease":"3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34","expires_in":-1}`} {
		sub, err := nc.Subscribe("kvslots.borrow", func(m *nats.Msg) { _ = m.Respond([]byte(body)) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Dial(nc).Borrow(t.Context(), uuid.New(), time.Second, 0); !errors.Is(err, kvslots.ErrUnavailable) {
			t.Errorf("%s: %v", body, err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened")
		}
	}
}
