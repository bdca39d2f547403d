package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// returners returns a Store, and a Client over each transport of a gateway in front of
// it. session creates a session there.
func returners(t *testing.T) (all map[string]kvslots.Service, session func() string) {
	t.Helper()
	g := serve(t)
	session = func() string {
		t.Helper()
		id, _, err := g.store.CreateSession(t.Context(), kvslots.WithIdle(time.Minute))
		kvslotstest.Must(t, err)
		return id
	}
	return map[string]kvslots.Service{"store": g.store, "nats": g.overNATS(t), "http": g.overHTTP(t)}, session
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
				kvslotstest.Must(t, kvslotstest.Err(r.Register(t.Context(), pool, 2)))
				first, err := r.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
				kvslotstest.Must(t, err)
				second, err := r.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
				kvslotstest.Must(t, err)
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
				g, err := r.Acquire(t.Context(), session, key, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
				kvslotstest.Must(t, err)
				for _, want := range []error{nil, kvslots.ErrNotHeld} {
					if err := r.Release(ended, session, key, g.Token); !errors.Is(err, want) {
						t.Errorf("release: %v, want %v", err, want)
					}
				}
				if _, err := r.Acquire(t.Context(), session, key, kvslots.WithTTL(time.Minute), kvslots.WithWait(0)); err != nil {
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

// A return that reaches no gateway fails, and leaves the lease as it was.
func TestReturnReportsThatNoGatewayIsThere(t *testing.T) {
	for name, url := range map[string]string{"nats": kvslotstest.Start(t, "").ClientURL(), "http": closedURL(t)} {
		c, err := dialEither(t, url, client.Config{Timeout: 100 * time.Millisecond})
		kvslotstest.Must(t, err)
		defer c.Close()
		for why, ended := range endedContexts(t) {
			if returned, err := c.Return(ended, uuid.New(), uuid.New()); returned || !errors.Is(err, kvslots.ErrUnavailable) {
				t.Errorf("%s, %s: %v, %v", name, why, returned, err)
			}
		}
	}
}
