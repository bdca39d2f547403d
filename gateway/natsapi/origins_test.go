package natsapi_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

const (
	perAddress = 3 // sessions or locks that an address may have

	callWithLock = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"f.f"},"extensions":[` +
		`{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k%d","ttl":{"value":1,"unit":"hour"},"auto_release":false}}]}`
)

// madeUp is a connection that makes up an inbox for each request.
type madeUp struct {
	nc      *nats.Conn
	answers *nats.Subscription
	inboxes atomic.Int64
}

func newMadeUp(t *testing.T, nc *nats.Conn, inboxes string) *madeUp {
	t.Helper()
	answers, err := nc.SubscribeSync(inboxes)
	kvslotstest.Must(t, err)
	return &madeUp{nc: nc, answers: answers}
}

func (c *madeUp) ask(t *testing.T, inbox, subject, body string) *nats.Msg {
	t.Helper()
	kvslotstest.Must(t, c.nc.PublishRequest(subject, fmt.Sprintf(inbox, c.inboxes.Add(1)), []byte(body)))
	m, err := c.answers.NextMsgWithContext(t.Context())
	kvslotstest.Must(t, err)
	return m
}

// wantShare sends requests until one is refused, which must be the one after most.
func (c *madeUp) wantShare(t *testing.T, inbox, subject, body string, most int, refused string) {
	t.Helper()
	for i := range most + 2 {
		m := c.ask(t, inbox, subject, strings.ReplaceAll(body, "%d", fmt.Sprint(c.inboxes.Load())))
		got := status(m)
		if got != "200" {
			got += " " + m.Header.Get("Nats-Service-Error")
		}
		if want := map[bool]string{true: "200", false: refused}[i < most]; got != want {
			t.Errorf("request %d: %s %s, want %s", i, got, m.Data, want)
		}
		if subject != "kvslots.rpc" && got != "200" && (m.Header.Get(wire.RetryAfterHeader) == "" || m.Header.Get(wire.ErrorHeader) == "") {
			t.Errorf("the headers are %v", m.Header)
		}
	}
}

func withAllOperations(c *natsapi.Config) {
	var called forrst.Functions
	called.Handle("f.f", func(context.Context, forrst.Call) (any, error) { return "done", nil })
	store := c.Pools.(*kvslots.Store)
	c.Sessions, c.Turns = store, gateway.NewTurns()
	c.Calls = forrst.New(store, forrst.Config{Lending: c.Lending, Functions: &called})
}

// twoAddresses is a listener with a connection from another address.
type twoAddresses struct {
	natsapi.Listener
	elsewhere *atomic.Uint64
}

func (l twoAddresses) Address(connection uint64) (string, bool) {
	if connection == l.elsewhere.Load() {
		return "192.0.2.1:4711", true
	}
	return l.Listener.Address(connection)
}

// At a listener the sessions, and the locks of calls, of all connections of an address count
// together, whatever inboxes they make up and however often they connect. Another address has
// a share of its own, also if one listens to its inboxes whose share is used up.
func TestOriginAtListener(t *testing.T) {
	for _, c := range []struct{ subject, body, refused string }{
		{"kvslots.session.create", "", "503 max_sessions_per_ip"},
		{"kvslots.rpc", callWithLock, "429 RATE_LIMITED"},
	} {
		t.Run(c.subject, func(t *testing.T) {
			var elsewhere atomic.Uint64 // a connection from another address
			d := startEmbeddedWith(t, natsembed.Config{}, kvslots.Config{MaxSessionsPerOrigin: perAddress, MaxLocksPerOrigin: perAddress}, withAllOperations, func(cfg *natsapi.Config) {
				cfg.Listener = twoAddresses{cfg.Listener, &elsewhere}
			})
			attacker := newMadeUp(t, d.connect(t), "_INBOX.>")
			attacker.wantShare(t, "_INBOX.a%d.x", c.subject, c.body, perAddress, c.refused)
			again := newMadeUp(t, d.connect(t), "_INBOX.b.*")
			again.inboxes.Store(1000)
			again.wantShare(t, "_INBOX.b.%d", c.subject, c.body, 0, c.refused)
			other := newMadeUp(t, d.connect(t), "_INBOX.c.*")
			number, err := other.nc.GetClientID()
			kvslotstest.Must(t, err)
			elsewhere.Store(number)
			other.inboxes.Store(2000)
			other.wantShare(t, "_INBOX.c.%d", c.subject, c.body, perAddress, c.refused)
		})
	}
}

// A session of which no client would learn is not created.
func TestUnansweredSession(t *testing.T) {
	d := startEmbeddedWith(t, natsembed.Config{}, kvslots.Config{MaxSessionsPerOrigin: perAddress}, withAllOperations)
	for range 2 * perAddress {
		kvslotstest.Must(t, d.nc.Publish("kvslots.session.create", nil))
		kvslotstest.Must(t, d.nc.PublishRequest("kvslots.session.create", "_INBOX.nobody.x", nil))
	}
	client := newMadeUp(t, d.nc, "_INBOX.a.*")
	client.wantShare(t, "_INBOX.a.%d", "kvslots.session.create", "", perAddress, "503 max_sessions_per_ip")
	if stats, err := d.store.Stats(t.Context()); err != nil || stats.Sessions != perAddress {
		t.Errorf("%d sessions, %v", stats.Sessions, err)
	}
}

// On an external server they count for the inbox that the client names.
func TestOriginAtExternalServer(t *testing.T) {
	srv, store := openStore(t, func(c *kvslots.Config) { c.MaxSessionsPerOrigin, c.MaxLocksPerOrigin = perAddress, perAddress })
	d := startService(t, srv, store, withAllOperations)
	for i, inbox := range []string{"_INBOX.a.%d", "_INBOX.b.%d", "_INBOX_ann.%d.x"} {
		client := newMadeUp(t, d.srv.Connect(), strings.ReplaceAll(inbox, "%d", "*"))
		client.inboxes.Store(int64(i) * 1000) // for keys that no other client uses
		client.wantShare(t, inbox, "kvslots.session.create", "", perAddress, "503 max_sessions_per_ip")
		client.wantShare(t, inbox, "kvslots.rpc", callWithLock, perAddress, "429 RATE_LIMITED")
	}
}
