package natsapi_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// broken is a store whose methods panic: all but Inspect are those of a nil interface.
type broken struct {
	brokenLender
	both
}

// both are the methods of Pools and of Sessions.
type both interface {
	kvslots.Operator
}

type brokenLender struct {
	ops.Pools
	ops.Sessions
	ops.OwnedLocks
}

func (broken) ID() string { return "" }

func (broken) ReadPool(context.Context, kvslots.PoolRef, kvslots.DetailPage) (kvslots.PoolDetail, error) {
	panic("at " + poolA)
}

const (
	poolBody  = `{"id":"` + poolA + `","count":1,"ttl":60,"wait":1,"lease":"` + unknownLease + `"}`
	rpcBody   = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"f.f"},"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","owner":"ann","ttl":{"value":30,"unit":"second"}}}]}`
	panicking = 2 // requests of each kind: the first must not leave anything behind
)

// bodyOf returns a valid body of an operation on sessions, locks and semaphores.
func bodyOf(op string) string {
	return map[string]string{
		"lock.acquire": `{"acquire_timeout_s":1}`, "lock.wait": `{"timeout_s":1}`,
		"lock.release": `{"token":"` + someToken + `"}`, "lock.renew": `{"token":"` + someToken + `"}`,
		"semaphore.acquire": `{"acquire_timeout_s":1,"limit":1}`, "semaphore.wait": `{"timeout_s":1}`, "semaphore.enqueue": `{"limit":1}`,
		"semaphore.release": `{"token":"` + someToken + `"}`, "semaphore.renew": `{"token":"` + someToken + `"}`,
	}[op]
}

// A panic of the store is answered 500 by all transports, and is logged without the secrets
// in its text. It keeps no turn, and no place of those that limits bound: all are 1 here.
func TestPanics(t *testing.T) {
	lending, turns, log := gateway.NewLending(), gateway.NewTurns(), &logtest.Log{}
	lending.Waits.Limit(ops.Limits{Total: 1, PerIP: 1})
	var functions forrst.Functions
	functions.Handle("f.f", func(context.Context, forrst.Call) (any, error) { return nil, nil })
	calls := forrst.New(broken{}, forrst.Config{Functions: &functions, Lending: lending, Logger: log.Logger()})
	d := startService(t, kvslotstest.Start(t, ""), broken{}, func(cfg *natsapi.Config) {
		cfg.Sessions, cfg.Turns, cfg.Lending, cfg.Calls = broken{}, turns, lending, calls
		cfg.MaxBorrows, cfg.Logger = 1, log.Logger()
	})
	web := httptest.NewServer(gateway.New(gateway.Config{
		Store: gatewaytest.Ready{}, Lending: lending, Logger: log.Logger(),
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(broken{}, lending, log.Logger()),
			gateway.NewDflockd(broken{}, gateway.DflockdConfig{Lending: lending, Turns: turns, Logger: log.Logger()}),
			calls,
		},
	}).Handler())
	t.Cleanup(web.Close)

	asked := 0
	want500 := func(what string, ask func() string) {
		t.Helper()
		for range panicking {
			asked++
			var got string
			gatewaytest.Eventually(t, "the place of the request before is free", func() bool {
				got = ask()
				return !strings.HasPrefix(got, "503 ")
			})
			if !strings.HasPrefix(got, "500 ") || strings.Contains(got, "9f1c2e7a") {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	over := func(op, body string) func() string {
		return func() string {
			code, answer := d.ask(t, op, body)
			return code + " " + answer
		}
	}
	post := func(method, path, body string) func() string {
		return func() string { return overWeb(t, web, method, path, body) }
	}
	for _, op := range ops.OfPools {
		want500(op.Subject, over(strings.TrimPrefix(op.Subject, "kvslots."), poolBody))
		want500(op.Method+" "+op.Path, post(op.Method, op.PathOf(poolA), poolBody))
	}
	nats, http := sessionsOverNATS(d), sessionsOverHTTP(web)
	for _, op := range slices.Concat(ops.OfSessions, ops.OfResources) {
		name, session := strings.TrimPrefix(op.Subject, "kvslots."), someSession
		if op == ops.CreateSession {
			session = ""
		}
		want500(op.Subject, func() string { return nats(t, name, session, "k", bodyOf(name)) })
		if op.Method == "GET" { // it has no body
			continue
		}
		want500(name+" over HTTP", func() string { return http(t, name, session, "k", bodyOf(name)) })
	}
	want500("rpc", over("rpc", rpcBody))
	want500("POST /rpc", post("POST", "/rpc", rpcBody))
	if n := strings.Count(log.String(), `"message":"handler panicked"`); n != asked || lending.Open() != 0 {
		t.Errorf("%d panics in the log, want %d; %d borrows are open\n%s", n, asked, lending.Open(), log)
	}
}

// noReturn is a store that panics when a lease is returned.
type noReturn struct{ ops.Pools }

func (noReturn) Return(context.Context, uuid.UUID, uuid.UUID) (bool, error) { panic("of " + poolA) }

// A panic in a task that no client waits for does not end the process.
func TestPanicOfATask(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, noReturn{store})
	d.register(t, "1")
	d.borrow(t, `"ttl":600`, wire.RequestHeader, "late")
	d.waitFor(t, `"in_use":1`)
	cancel(t, d.nc, "late")
	d.logs.Await(t, func(text string) bool { return strings.Contains(text, `"message":"task panicked"`) })
	d.want(t, "borrow", `{"id":"`+poolA+`","ttl":600}`, "409", `{"error":"no resource available"}`)
}
