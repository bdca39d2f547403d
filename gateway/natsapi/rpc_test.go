package natsapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
)

const (
	callInLine = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"f.f"},"extensions":[` +
		`{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","ttl":{"value":1,"unit":"hour"},"block":{"value":1,"unit":"minute"}}}]}`
	lockOfCall = "lock:f.f:k"
)

// A caller that died while it waited for the lock does not get it: its function is
// not called, and the lock goes to the next in line, which is alive.
func TestDeadCallerInLine(t *testing.T) {
	srv, store := openStore(t)
	var called forrst.Functions
	calls := make(chan struct{}, 2)
	called.Handle("f.f", func(context.Context, forrst.Call) (any, error) {
		calls <- struct{}{}
		return "done", nil
	})
	d := openDoor(t, srv, store, func(cfg *natsapi.Config) {
		cfg.Calls = forrst.New(store, forrst.Config{Lending: cfg.Lending, Functions: &called})
	})
	holder, err := store.LockOwned(t.Context(), lockOfCall, "test", time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	waiters := func(n int) {
		t.Helper()
		gatewaytest.Eventually(t, "so many wait", func() bool {
			stats, err := store.Stats(t.Context())
			return err == nil && len(stats.Names) == 1 && len(stats.Names[0].Waiters) == n
		})
	}
	dying := d.caller(t)
	waiters(1)
	alive := d.caller(t)
	waiters(2)
	dying.conn.Close()
	if _, err := store.UnlockOwned(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	m, err := alive.answers.NextMsg(30 * time.Second)
	if err != nil || status(m) != "200" {
		t.Fatalf("%+v, %v", m, err)
	}
	if n := len(calls); n != 1 {
		t.Errorf("the function was called %d times", n)
	}
}

// caller sends a call that waits, from a connection that can be cut.
func (d *door) caller(t *testing.T) *requester {
	t.Helper()
	r := &requester{}
	nc, err := nats.Connect(d.srv.ClientURL(), nats.NoReconnect(), nats.SetCustomDialer(r))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.nc = nc
	inbox := nc.NewInbox()
	if r.answers, err = nc.SubscribeSync(inbox); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(nc.PublishRequest("kvslots.rpc", inbox, []byte(callInLine)), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return r
}
