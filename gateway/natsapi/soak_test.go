package natsapi_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
)

// Clients that subscribe to every answer and never read, during a flood of requests, cost
// a bounded amount of memory.
func TestSoakAnswersNotRead(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	d := startEmbedded(t)
	for _, c := range []struct {
		subject string
		each    int // subscriptions of each client
	}{
		{"$SRV.STATS", 1}, {"$SRV.STATS", 256}, {"kvslots.inspect", 1}, {"kvslots.inspect", 256},
	} {
		t.Run(fmt.Sprint(c.subject, " ", c.each), func(t *testing.T) {
			const silent = 24
			var subscribe strings.Builder
			for i := range c.each {
				fmt.Fprintf(&subscribe, "SUB _INBOX.> %d\r\n", i)
			}
			connectFlood := func() net.Conn {
				flood := connectSilent(t, d.address(), "")
				go func() { _, _ = io.Copy(io.Discard, flood) }()
				return flood
			}
			flood := connectFlood()
			requests := strings.Repeat(fmt.Sprintf("PUB %s _INBOX.x 2\r\n{}\r\n", c.subject), 1000)
			var most uint64
			sent, connected, cut := 0, 0, 0
			for began := time.Now(); time.Since(began) < 11*time.Second; {
				for range silent - (d.server.Clients().NumClients() - 2) {
					connectSilent(t, d.address(), subscribe.String())
					connected++
				}
				if _, err := io.WriteString(flood, requests); err == nil {
					sent += 1000
				} else { // the server disconnects a client that sends more than the gateway can read
					flood = connectFlood()
					cut++
				}
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				most = max(most, memory.Sys-memory.HeapReleased)
			}
			t.Logf("%d requests over %d connections, %d silent clients one after the other, at most %d MB in use", sent, cut+1, connected, most>>20)
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

// A grant keeps its place until the server has reported its delivery. A client that uses
// its whole share is refused if it asks again sooner; how often and for how long is logged.
func TestSoakPlacesOfGrants(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	srv, store := openStore(t)
	d := startService(t, srv, store, func(c *natsapi.Config) { c.MaxBorrows = 1 })
	const grants = 1000
	d.register(t, fmt.Sprint(grants))
	refused, longest := 0, time.Duration(0)
	for range grants {
		began, asked := time.Now(), 0
		gatewaytest.Eventually(t, "the place of the grant before is free", func() bool {
			asked++
			code, _ := d.ask(t, "borrow", `{"id":"`+poolA+`","ttl":600}`)
			return code == "200"
		})
		if asked > 1 {
			refused++
			longest = max(longest, time.Since(began))
		}
	}
	t.Logf("%d of %d borrows right after a grant were refused at first; the longest took %v", refused, grants, longest)
}
