package natsapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// embedded is an embedded server with a listener and the service on it, and a client.
type embedded struct {
	fixture // without a server of its own

	server *natsembed.Server
	store  *kvslots.Store
}

func startEmbedded(t *testing.T, change ...func(*natsapi.Config)) *embedded {
	t.Helper()
	return startEmbeddedWith(t, natsembed.Config{}, kvslots.Config{}, change...)
}

// startEmbeddedWith starts a server, with a store that has the caps of a configuration.
func startEmbeddedWith(t *testing.T, server natsembed.Config, store kvslots.Config, change ...func(*natsapi.Config)) *embedded {
	t.Helper()
	server.Addr = "127.0.0.1:0"
	fail := func(err error) {
		t.Helper()
		kvslotstest.Must(t, err)
	}
	d := &embedded{server: gatewaytest.StartServer(t, server)}
	inside, err := d.server.Connect()
	fail(err)
	t.Cleanup(inside.Close)
	store.Logger = logtest.Logger()
	d.store, err = natsstore.Open(t.Context(), inside, store)
	fail(err)
	t.Cleanup(func() { _ = d.store.Close(context.Background()) })
	nc, err := d.server.ConnectService(nats.ReconnectBufSize(-1))
	fail(err)
	t.Cleanup(nc.Close)
	d.lending = gateway.NewLending()
	d.lending.MaxWait = time.Hour
	cfg := natsapi.Config{Logger: logtest.Logger(), Pools: d.store, Lending: d.lending, Listener: d.server.Clients()}
	for _, c := range change {
		c(&cfg)
	}
	d.service, err = natsapi.Start(nc, cfg)
	fail(err)
	t.Cleanup(func() {
		d.lending.Stop()
		_ = d.service.Close(context.Background())
	})
	d.nc = d.connect(t)
	return d
}

func (d *embedded) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(d.server.ClientURL())
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// address returns the host and port of the listener.
func (d *embedded) address() string { return strings.TrimPrefix(d.server.ClientURL(), "nats://") }
