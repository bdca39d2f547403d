package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// gateways is a store with a gateway in front of it, over NATS and over HTTP.
type gateways struct {
	srv     *kvslotstest.Server
	store   *kvslots.Store
	lending *gateway.Lending
	url     string // of HTTP
}

const (
	authToken = "hunter2"
	maxPools  = 20 // more than the other tests register
)

// serve serves until the test ends.
func serve(t *testing.T) *gateways {
	t.Helper()
	return serveStore(t, kvslots.Config{MaxPools: maxPools})
}

// serveStore is serve with settings of the store.
func serveStore(t *testing.T, cfg kvslots.Config) *gateways {
	t.Helper()
	srv := kvslotstest.Start(t, "")
	cfg.Logger = logtest.Logger()
	store, err := natsstore.Open(t.Context(), srv.Connect(), cfg)
	kvslotstest.Must(t, err)
	lending, turns := gateway.NewLending(), gateway.NewTurns()
	service, err := natsapi.Start(srv.Connect(nats.ReconnectBufSize(-1)), natsapi.Config{
		Pools: store, Sessions: store, Turns: turns, Lending: lending, Tokens: gateway.NewTokens(authToken), Logger: logtest.Logger(),
	})
	kvslotstest.Must(t, err)
	web := gateway.New(gateway.Config{
		Store: store, Lending: lending, Tokens: gateway.NewTokens(authToken), Logger: logtest.Logger(),
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(store, lending, logtest.Logger()),
			gateway.NewDflockd(store, gateway.DflockdConfig{Lending: lending, Turns: turns}),
			events.New(store, events.Config{Lending: lending}),
		},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(web.Drain(ctx), <-served, service.Close(ctx), store.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return &gateways{srv: srv, store: store, lending: lending, url: "http://" + ln.Addr().String()}
}

// overHTTP returns a client of the gateway over HTTP.
func (g *gateways) overHTTP(t *testing.T) *client.Client { return dial(t, g.url) }

func dial(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := dialEither(t, url, client.Config{Token: authToken})
	kvslotstest.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// dialEither dials over HTTP or NATS.
func dialEither(t *testing.T, url string, cfg client.Config) (*client.Client, error) {
	if strings.HasPrefix(url, "nats:") {
		return natsclient.Dial(t.Context(), url, cfg)
	}
	return client.Dial(t.Context(), url, cfg)
}

// overNATS returns a client of the gateway over NATS.
func (g *gateways) overNATS(t *testing.T) *client.Client {
	t.Helper()
	return dial(t, g.srv.ClientURL())
}

// overEach runs a test over each transport, with a gateway of its own.
func overEach(t *testing.T, test func(t *testing.T, g *gateways, c *client.Client)) {
	for name, transport := range map[string]func(*gateways, *testing.T) *client.Client{
		"nats": (*gateways).overNATS,
		"http": (*gateways).overHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t)
			test(t, g, transport(g, t))
		})
	}
}
