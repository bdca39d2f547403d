package natsapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

// Clients that subscribe to every answer and never read, during a flood of requests, cost
// a bounded amount of memory.
func TestSoakAnswersNotRead(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	srv, err := natsembed.Start(t.Context(), natsembed.Config{Logger: logtest.Logger(), DataDir: t.TempDir(), Addr: "127.0.0.1:0", Sync: natsembed.SyncInterval})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	inside, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	store, err := kvslots.Open(t.Context(), inside, kvslots.Config{Logger: logtest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	nc, err := srv.ConnectService(nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	service, err := natsapi.Start(nc, natsapi.Config{Logger: logtest.Logger(), Pools: store, Lending: gateway.NewLending()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close(context.Background()) })
	for _, c := range []struct {
		subject string
		each    int // subscriptions of each client
	}{
		{"$SRV.STATS", 1}, {"$SRV.STATS", 256}, {"kvslots.inspect", 1}, {"kvslots.inspect", 256},
	} {
		t.Run(fmt.Sprint(c.subject, " ", c.each), func(t *testing.T) {
			address := strings.TrimPrefix(srv.ClientURL(), "nats://")
			const silent = 24
			var subscribe strings.Builder
			for i := range c.each {
				fmt.Fprintf(&subscribe, "SUB _INBOX.> %d\r\n", i)
			}
			flood := connectSilent(t, address, "")
			go func() { _, _ = io.Copy(io.Discard, flood) }()
			requests := strings.Repeat(fmt.Sprintf("PUB %s _INBOX.x 2\r\n{}\r\n", c.subject), 1000)
			var most uint64
			sent, connected := 0, 0
			for began := time.Now(); time.Since(began) < 11*time.Second; sent += 1000 {
				for range silent - (srv.NumClients() - 1) {
					connectSilent(t, address, subscribe.String())
					connected++
				}
				if _, err := io.WriteString(flood, requests); err != nil {
					t.Fatal(err)
				}
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				most = max(most, memory.Sys-memory.HeapReleased)
			}
			t.Logf("%d requests, %d silent clients one after the other, at most %d MB in use", sent, connected, most>>20)
			if most > 768<<20 {
				t.Errorf("%d MB are in use", most>>20)
			}
		})
	}
}

// connectSilent connects a client that does not read.
func connectSilent(t *testing.T, address, subscribe string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\n"+subscribe); err != nil {
		t.Fatal(err)
	}
	return conn
}
