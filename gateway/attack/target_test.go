package attack

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/gateway/page"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

const pool = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// target is a gateway with all its listeners.
type target struct {
	*gatewaytest.Gateway
	store *kvslots.Store
	tcp   string // the address of dflockd's protocol
	nats  string // the URL of the NATS listener
}

// config is what tests change.
type config struct {
	gateway.Config
	store  kvslots.Config
	events events.Config
}

func open(t *testing.T, change func(c *config)) *target {
	t.Helper()
	c := config{}
	change(&c)
	server := gatewaytest.StartServer(t, natsembed.Config{Addr: "127.0.0.1:0"})
	d := &target{nats: server.ClientURL()}
	d.store, _ = gatewaytest.OpenStore(t, server.Connect, c.store)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	d.tcp = ln.Addr().String()
	turns := gateway.NewTurns()
	var called forrst.Functions
	called.Handle("a.b", func(context.Context, forrst.Call) (any, error) { return "done", nil })
	var service *natsapi.Service
	var functions *forrst.Server
	var tcp *dflockdtcp.Server
	d.Gateway = gatewaytest.Open(t, func(cfg *gateway.Config) {
		c.Config.Store, c.Config.Lending, c.Config.Logger = d.store, cfg.Lending, cfg.Logger
		*cfg = c.Config
		c.events.Lending, c.events.Logger = cfg.Lending, cfg.Logger
		streams := events.New(d.store, c.events)
		functions = forrst.New(d.store, forrst.Config{Functions: &called, Lending: cfg.Lending, Tokens: cfg.Tokens, Logger: cfg.Logger})
		cfg.Collectors = append(streams.Collectors(), metrics.Store(d.store.Metrics))
		cfg.Dialects = []gateway.Dialect{
			gateway.NewLibrary(d.store, cfg.Lending, cfg.Logger),
			gateway.NewDflockd(d.store, gateway.DflockdConfig{Lending: cfg.Lending, Turns: turns, Logger: cfg.Logger}),
			functions, streams, page.New(d.store, page.Config{}),
		}
		nc, err := server.ConnectService(nats.ReconnectBufSize(-1))
		kvslotstest.Must(t, err)
		t.Cleanup(nc.Close)
		service, err = natsapi.Start(nc, natsapi.Config{
			Pools: d.store, Sessions: d.store, Calls: functions, Lending: cfg.Lending, Turns: turns, Tokens: cfg.Tokens,
			Listener: server.Clients(), Logger: cfg.Logger,
		})
		kvslotstest.Must(t, err)
		tcp = dflockdtcp.New(dflockdtcp.Config{Sessions: d.store, Lending: cfg.Lending, Turns: turns, Tokens: cfg.Tokens, Logger: cfg.Logger})
	})
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(ln) }()
	t.Cleanup(func() {
		d.Lending.Stop()
		tcp.Finish(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = service.Close(context.Background())
		_ = functions.Close(context.Background())
	})
	return d
}

// metric returns the sum of a metric over its labels.
func (d *target) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	_, text, _ := d.Do(t, "GET", "/metrics", "")
	for line := range strings.Lines(text) {
		label, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(label, "{"); bare == name {
			n, err := strconv.ParseFloat(value, 64)
			kvslotstest.Must(t, err)
			sum += n
		}
	}
	return sum
}

// want sends a request over HTTP, and wants a status and a text in the answer.
func (d *target) want(t *testing.T, method, path, body string, code int, text string, header ...string) string {
	t.Helper()
	got, answer, _ := d.Do(t, method, path, body, header...)
	if got != code || !strings.Contains(answer, text) {
		t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, got, answer, code, text)
	}
	return answer
}

func (d *target) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(d.nats)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func (d *target) decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
