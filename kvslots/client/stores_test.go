package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// dialerWithout does not reach an address while it is gone.
type dialerWithout struct {
	address string
	gone    atomic.Bool
}

func (d *dialerWithout) Dial(network, address string) (net.Conn, error) {
	if d.gone.Load() && address == d.address {
		return nil, errors.New("gone")
	}
	return net.Dial(network, address)
}

// A connection to NATS that fails over to a gateway with another store keeps nothing that is granted there.
func TestTwoStoresOverNATS(t *testing.T) {
	one, other, pool, ctx := serve(t), serve(t), uuid.New(), t.Context()
	for _, g := range []*gateways{one, other} {
		kvslotstest.Must(t, kvslotstest.Err(g.store.Register(ctx, pool, 1)))
	}
	first := &dialerWithout{address: strings.TrimPrefix(one.srv.ClientURL(), "nats://")}
	c, nc := dialBoth(t, first, one, other)
	borrow := func() error {
		lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		if err == nil {
			_, err = lease.Return(ctx)
		}
		return err
	}
	failOver := func(to *gateways) {
		kvslotstest.Must(t, nc.ForceReconnect())
		kvslotstest.Eventually(t, "the connection has failed over", func() bool { return nc.IsConnected() && nc.ConnectedUrl() == to.srv.ClientURL() })
	}
	kvslotstest.Must(t, borrow())
	first.gone.Store(true)
	failOver(other)
	err := borrow()
	if !errors.Is(err, client.ErrTwoStores) || !strings.Contains(err.Error(), other.srv.ClientURL()) || client.Temporary(err) {
		t.Errorf("borrow at another store: %v", err)
	}
	kvslotstest.Eventually(t, "the other store has its slot back", func() bool {
		state, err := other.store.Inspect(ctx, pool)
		return err == nil && state.InUse == 0
	})
}

func dialBoth(t *testing.T, by nats.CustomDialer, all ...*gateways) (*client.Client, *nats.Conn) {
	var urls []string
	for _, g := range all {
		urls = append(urls, g.srv.ClientURL())
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.SetCustomDialer(by), nats.ReconnectWait(time.Millisecond))
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	c := natsclient.New(nc, client.Config{})
	t.Cleanup(c.Close)
	return c, nc
}

// naming returns the address of a server that names a store.
func naming(t *testing.T, store *atomic.Value) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Kvslots-Store", store.Load().(string))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// An address that names another store than before has a new bucket; two addresses may not name two, whatever they answer.
func TestStoresOfAddresses(t *testing.T) {
	var first, second atomic.Value
	first.Store("OLD")
	second.Store("")
	c := dial(t, naming(t, &first)+","+naming(t, &second))
	inspect := func() error { return kvslotstest.Err(c.Inspect(t.Context(), uuid.New())) }
	for _, step := range []struct {
		first, second string
		two           bool
	}{{"OLD", "", false}, {"NEW", "NEW", false}, {"NEW", "OLD", true}, {"NEW", "", false}, {"OLD", "OLD", false}, {"", "X", true}} {
		first.Store(step.first)
		second.Store(step.second)
		if err := inspect(); errors.Is(err, client.ErrTwoStores) != step.two || !step.two && !client.Temporary(err) {
			t.Errorf("%v: %v", step, err)
		}
	}
	if _, err := c.Watch(0).Next(t.Context()); !errors.Is(err, client.ErrTwoStores) {
		t.Errorf("events: %v", err)
	}
}
