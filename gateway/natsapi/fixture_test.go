package natsapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

const (
	poolA        = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	unknownLease = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
)

// fixture is a server with the service on it, and a client.
type fixture struct {
	srv     *kvslotstest.Server
	nc      *nats.Conn // the client's
	lending *gateway.Lending
	service *natsapi.Service
	logs    *logtest.Log
}

// openStore opens a store on a server of its own; both end with the test.
func openStore(t *testing.T, change ...func(*kvslots.Config)) (*kvslotstest.Server, *kvslots.Store) {
	t.Helper()
	srv := kvslotstest.Start(t, "", func(o *server.Options) { o.SyncInterval = time.Second })
	return srv, openPeer(t, srv, change...)
}

func openPeer(t *testing.T, srv *kvslotstest.Server, change ...func(*kvslots.Config)) *kvslots.Store {
	t.Helper()
	cfg := kvslots.Config{MaxTTL: time.Hour, Logger: logtest.Logger()}
	for _, c := range change {
		c(&cfg)
	}
	store, err := natsstore.Open(t.Context(), srv.Connect(), cfg)
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return store
}

// serveSlots serves a store with a pool of count slots.
func serveSlots(t *testing.T, count string) *fixture {
	t.Helper()
	srv, store := openStore(t)
	d := startService(t, srv, store)
	d.register(t, count)
	return d
}

// startService serves pools until the test ends.
func startService(t *testing.T, srv *kvslotstest.Server, pools ops.Pools, change ...func(*natsapi.Config)) *fixture {
	t.Helper()
	d := &fixture{srv: srv, nc: srv.Connect(), lending: gateway.NewLending(), logs: &logtest.Log{}}
	cfg := natsapi.Config{Pools: pools, Lending: d.lending, Version: "v1.2.3", Logger: d.logs.Logger()}
	for _, c := range change {
		c(&cfg)
	}
	service, err := natsapi.Start(srv.Connect(nats.ReconnectBufSize(-1)), cfg)
	kvslotstest.Must(t, err)
	d.service = service
	t.Cleanup(func() {
		d.lending.Stop()
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// ask sends a request and returns status and body. It may be called from any goroutine.
func (d *fixture) ask(t *testing.T, op, body string, header ...string) (string, string) {
	t.Helper()
	m := nats.NewMsg("kvslots." + op)
	m.Data = []byte(body)
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	answer, err := d.nc.RequestMsgWithContext(t.Context(), m)
	if err != nil {
		t.Errorf("%s: %v", op, err)
		return "", ""
	}
	return status(answer), string(answer.Data)
}

// status returns 200 unless the header has another status.
func status(m *nats.Msg) string {
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		return code
	}
	return "200"
}

func (d *fixture) want(t *testing.T, op, body, code, answer string) {
	t.Helper()
	if gotCode, got := d.ask(t, op, body); gotCode != code || got != answer {
		t.Errorf("%s %s\n got %s %s\nwant %s %s", op, body, gotCode, got, code, answer)
	}
}

// borrow takes a slot of the pool.
func (d *fixture) borrow(t *testing.T, fields string, header ...string) (lease wire.Lease) {
	t.Helper()
	code, answer := d.ask(t, "borrow", `{"id":"`+poolA+`",`+fields+`}`, header...)
	if err := json.Unmarshal([]byte(answer), &lease); err != nil || code != "200" {
		t.Errorf("borrow: %s %s", code, answer)
	}
	return lease
}

func (d *fixture) register(t *testing.T, count string) {
	t.Helper()
	if code, answer := d.ask(t, "register", `{"id":"`+poolA+`","count":`+count+`}`); code != "200" {
		t.Fatalf("register: %s %s", code, answer)
	}
}

// queue takes a slot of the pool, which must be the last free one, and has n clients wait.
func (d *fixture) queue(t *testing.T, n int, wait func(*testing.T) *requester) (held wire.Lease, waiting []*requester) {
	t.Helper()
	held = d.borrow(t, `"ttl":600`)
	return held, d.waiters(t, n, wait)
}

// waiters has n clients wait for the pool, one behind the other.
func (d *fixture) waiters(t *testing.T, n int, wait func(*testing.T) *requester) (waiting []*requester) {
	t.Helper()
	for i := range n {
		waiting = append(waiting, wait(t))
		d.waitFor(t, fmt.Sprintf(`"waiting":%d`, i+1))
	}
	return waiting
}

func (d *fixture) giveBack(t *testing.T, lease wire.Lease) {
	t.Helper()
	d.want(t, "return", `{"id":"`+poolA+`","lease":"`+lease.Lease.String()+`"}`, "200", `{"returned":true}`)
}

// waitFor waits until an inspection of the pool contains a text.
func (d *fixture) waitFor(t *testing.T, text string) {
	t.Helper()
	d.waitForPool(t, poolA, text)
}

func (d *fixture) waitForPool(t *testing.T, pool, text string) {
	t.Helper()
	gatewaytest.Eventually(t, text, func() bool {
		_, state := d.ask(t, "inspect", `{"id":"`+pool+`"}`)
		return strings.Contains(state, text)
	})
}

// statsOf returns how many requests to an endpoint have arrived, were answered and are open.
func (d *fixture) statsOf(t *testing.T, name string) (received, answered, open int) {
	t.Helper()
	m, err := d.nc.RequestWithContext(t.Context(), "$SRV.STATS.kvslots", nil)
	kvslotstest.Must(t, err)
	var all micro.Stats
	kvslotstest.Must(t, json.Unmarshal(m.Data, &all))
	i := slices.IndexFunc(all.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == name })
	var data struct{ Answered, Open int }
	kvslotstest.Must(t, json.Unmarshal(all.Endpoints[i].Data, &data))
	return all.Endpoints[i].NumRequests, data.Answered, data.Open
}
