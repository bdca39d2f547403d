package client_test

import (
	"context"
	"errors"
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

// returner is a Store or a Client, with sessions and pools.
type returner interface {
	peer
	locker
}

// returners opens a Store, and a Client of a gateway in front of it. session
// creates a session there.
func returners(t *testing.T) (all map[string]returner, session func() string) {
	t.Helper()
	srv := kvslotstest.Start(t, "")
	store, err := kvslots.Open(t.Context(), srv.Connect(), kvslots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := natsapi.Start(srv.Connect(nats.ReconnectBufSize(-1)), natsapi.Config{
		Pools: store, Sessions: store, Turns: gateway.NewTurns(), Lending: gateway.NewLending(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(service.Close(context.Background()), store.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	session = func() string {
		t.Helper()
		id, err := store.CreateSession(t.Context(), time.Minute, "")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	return map[string]returner{"store": store, "client": client.Dial(srv.Connect())}, session
}

// endedContexts are contexts under which `defer lease.Return(ctx)` runs.
func endedContexts(t *testing.T) map[string]context.Context {
	t.Helper()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	t.Cleanup(stop)
	return map[string]context.Context{"cancelled": cancelled, "expired": expired}
}

func TestReturnsWhateverTheContext(t *testing.T) {
	all, _ := returners(t)
	for name, r := range all {
		for why, ended := range endedContexts(t) {
			t.Run(name+" "+why, func(t *testing.T) {
				pool := uuid.New()
				if _, err := r.Register(t.Context(), pool, 2); err != nil {
					t.Fatal(err)
				}
				first, err := r.Borrow(t.Context(), pool, time.Minute, 0)
				if err != nil {
					t.Fatal(err)
				}
				second, err := r.Borrow(t.Context(), pool, time.Minute, 0)
				if err != nil {
					t.Fatal(err)
				}
				if returned, err := first.Return(ended); !returned || err != nil {
					t.Errorf("lease: %v, %v", returned, err)
				}
				for _, want := range []bool{true, false} {
					if returned, err := r.Return(ended, pool, second.ID()); returned != want || err != nil {
						t.Errorf("got %v, %v; want %v", returned, err, want)
					}
				}
				if state, err := r.Inspect(t.Context(), pool); err != nil || state.InUse != 0 {
					t.Errorf("inspect: %+v, %v", state, err)
				}
				if _, err := r.Return(ended, uuid.New(), second.ID()); !errors.Is(err, kvslots.ErrNoPool) {
					t.Errorf("no pool: %v", err)
				}
			})
		}
	}
}

func TestReleasesWhateverTheContext(t *testing.T) {
	all, newSession := returners(t)
	for name, r := range all {
		for why, ended := range endedContexts(t) {
			t.Run(name+" "+why, func(t *testing.T) {
				session, key := newSession(), kvslots.Lock(name+why)
				g, err := r.Acquire(t.Context(), session, key, time.Minute, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []error{nil, kvslots.ErrNotHeld} {
					if err := r.Release(ended, session, key, g.Token); !errors.Is(err, want) {
						t.Errorf("release: %v, want %v", err, want)
					}
				}
				if _, err := r.Acquire(t.Context(), session, key, time.Minute, 0); err != nil {
					t.Errorf("acquire: %v", err)
				}
				for _, want := range []error{nil, kvslots.ErrSessionGone} {
					if err := r.EndSession(ended, session); !errors.Is(err, want) {
						t.Errorf("end: %v, want %v", err, want)
					}
				}
				if err := r.Ping(t.Context(), session); !errors.Is(err, kvslots.ErrSessionGone) {
					t.Errorf("ping: %v", err)
				}
			})
		}
	}
}

// A return that cannot get through says so, and leaves the lease as it was.
func TestReturnReportsThatNoGatewayIsThere(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	c := client.Dial(srv.Connect())
	for why, ended := range endedContexts(t) {
		if returned, err := c.Return(ended, uuid.New(), uuid.New()); returned || !errors.Is(err, kvslots.ErrUnavailable) {
			t.Errorf("%s: %v, %v", why, returned, err)
		}
	}
}
