package natsapi_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// answerOnly starts a service for requests that need no pools.
func answerOnly(t *testing.T, nc *nats.Conn, change ...func(*natsapi.Config)) {
	t.Helper()
	cfg := natsapi.Config{Lending: gateway.NewLending(), Logger: logtest.Logger()}
	for _, c := range change {
		c(&cfg)
	}
	service, err := natsapi.Start(nc, cfg)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { _ = service.Close(t.Context()) })
}

// bothKinds are subjects of verbs and of an operation.
var bothKinds = []string{"$SRV.PING", "$SRV.STATS.kvslots", "kvslots.inspect"}

func asksBoth(t *testing.T, nc *nats.Conn) {
	t.Helper()
	for _, subject := range bothKinds {
		if _, err := nc.RequestWithContext(t.Context(), subject, []byte("{}")); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// Requests whose reply subject has a custom inbox prefix, or was replaced by a server, are
// answered.
func TestRepliesToOtherInboxes(t *testing.T) {
	t.Run("custom prefixes", func(t *testing.T) {
		srv := kvslotstest.Start(t, "")
		answerOnly(t, srv.Connect(), func(cfg *natsapi.Config) { cfg.ReplyPrefixes = []string{"app.inbox"} })
		asksBoth(t, srv.Connect(nats.CustomInboxPrefix("_INBOX_UABC")))
		asksBoth(t, srv.Connect(nats.CustomInboxPrefix("app.inbox")))
		asksBoth(t, srv.Connect(nats.CustomInboxPrefix("app.inbox.ann")))
		_, err := srv.Connect(nats.CustomInboxPrefix("other")).Request("$SRV.PING", nil, 50*time.Millisecond)
		if !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("another prefix: %v", err)
		}
	})
	t.Run("service import", func(t *testing.T) {
		service, clients := server.NewAccount("service"), server.NewAccount("clients")
		srv := kvslotstest.Start(t, "", func(o *server.Options) {
			o.JetStream = false
			o.Accounts = []*server.Account{service, clients}
			o.Users = []*server.User{{Username: "s", Password: "s", Account: service}, {Username: "c", Password: "c", Account: clients}}
		})
		var err error
		service, err = srv.LookupAccount("service")
		kvslotstest.Must(t, err)
		clients, err = srv.LookupAccount("clients")
		kvslotstest.Must(t, err)
		for _, subject := range []string{"kvslots.>", "$SRV.>"} {
			kvslotstest.Must(t, errors.Join(service.AddServiceExport(subject, nil), clients.AddServiceImport(service, subject, subject)))
		}
		nc := srv.Connect(nats.UserInfo("s", "s"))
		replies := overhear(t, nc, "kvslots.inspect")
		answerOnly(t, nc)
		asksBoth(t, srv.Connect(nats.UserInfo("c", "c")))
		wantPrefix(t, replies, "_R_.")
	})
	t.Run("another cluster", func(t *testing.T) {
		a := gatewayServer(t, "a", nil)
		b := gatewayServer(t, "b", a)
		gatewaytest.Eventually(t, "the clusters know each other", func() bool {
			return a.NumOutboundGateways() == 1 && b.NumOutboundGateways() == 1
		})
		nc := a.Connect()
		written, err := nc.SubscribeSync("$KV.>")
		kvslotstest.Must(t, err)
		answerOnly(t, nc)
		client := b.Connect()
		for _, subject := range bothKinds { // the servers tell each other of each
			gatewaytest.Eventually(t, "the other cluster answers "+subject, func() bool {
				_, err := client.Request(subject, []byte("{}"), 100*time.Millisecond)
				return err == nil
			})
		}
		for _, subject := range bothKinds {
			kvslotstest.Must(t, client.PublishRequest(subject, "$KV.kvslots.x", []byte("{}")))
		}
		asksBoth(t, client) // sent, and so answered, after those
		kvslotstest.Must(t, nc.Flush())
		if n, _, _ := written.Pending(); n != 0 {
			t.Errorf("the service wrote %d messages to $KV", n)
		}
	})
}

// overhear subscribes to requests that the service receives, too.
func overhear(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	kvslotstest.Must(t, err)
	return sub
}

func wantPrefix(t *testing.T, requests *nats.Subscription, prefix string) {
	t.Helper()
	m, err := requests.NextMsgWithContext(t.Context())
	kvslotstest.Must(t, err)
	if !strings.HasPrefix(m.Reply, prefix) {
		t.Errorf("the server makes the reply subject %q of it; the test shows nothing", m.Reply)
	}
}

// gatewayServer is a cluster of one server, joined to another one.
func gatewayServer(t *testing.T, name string, other *kvslotstest.Server) *kvslotstest.Server {
	return kvslotstest.Start(t, "", func(o *server.Options) {
		o.JetStream = false
		o.Gateway = server.GatewayOpts{Name: name, Host: "127.0.0.1", Port: -1}
		if other != nil {
			at := &url.URL{Scheme: "nats", Host: other.GatewayAddr().String()}
			o.Gateway.Gateways = []*server.RemoteGatewayOpts{{Name: "a", URLs: []*url.URL{at}}}
		}
	})
}
