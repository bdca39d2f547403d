package natsapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const (
	callInLine = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"f.f"},"extensions":[` +
		`{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","ttl":{"value":1,"unit":"hour"},"block":{"value":1,"unit":"minute"}}}]}`
	lockOfCall = "lock:f.f:k"
)

// A client that died while its call waited for the lock does not get it: its function is
// not called, and the lock goes to the next in line, which is alive.
func TestDeadCallerInLine(t *testing.T) {
	srv, store := openStore(t)
	var called forrst.Functions
	calls := make(chan struct{}, 2)
	called.Handle("f.f", func(context.Context, forrst.Call) (any, error) {
		calls <- struct{}{}
		return "done", nil
	})
	d := startService(t, srv, store, func(cfg *natsapi.Config) {
		cfg.Calls = forrst.New(store, forrst.Config{Lending: cfg.Lending, Functions: &called})
	})
	holder, err := store.LockOwned(t.Context(), lockOfCall, "test", kvslots.WithTTL(time.Hour), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	waiters := func(n int) {
		t.Helper()
		gatewaytest.Eventually(t, "so many wait", func() bool {
			stats, err := store.Stats(t.Context())
			return err == nil && len(stats.Names) == 1 && len(stats.Names[0].Waiters) == n
		})
	}
	dying := d.send(t, "kvslots.rpc", callInLine, nil)
	waiters(1)
	alive := d.send(t, "kvslots.rpc", callInLine, nil)
	waiters(2)
	dying.kill()
	gatewaytest.Eventually(t, "the server knows", func() bool { return !dying.isHeard(srv) })
	kvslotstest.Must(t, kvslotstest.Err(store.UnlockOwned(t.Context(), holder)))
	if m := alive.answer(t); status(m) != "200" {
		t.Fatalf("%s %s", status(m), m.Data)
	}
	if n := len(calls); n != 1 {
		t.Errorf("the function was called %d times", n)
	}
}

// A call through a service import that may wait for its lock is answered: to ask whether its client
// has gone would use up its reply subject.
func TestCallInLineThroughAServiceImport(t *testing.T) {
	srv, store := openImported(t)
	var called forrst.Functions
	called.Handle("f.f", func(context.Context, forrst.Call) (any, error) { return "done", nil })
	d := startService(t, srv, store, func(cfg *natsapi.Config) {
		cfg.Calls = forrst.New(store, forrst.Config{Lending: cfg.Lending, Functions: &called})
	})
	caller := d.send(t, "kvslots.rpc", callInLine, nil, nats.UserInfo("c", "c"))
	if m := caller.answer(t); status(m) != "200" || !strings.Contains(string(m.Data), `"result":"done"`) {
		t.Errorf("%s %s", status(m), m.Data)
	}
}
