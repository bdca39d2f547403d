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

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
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
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, "CONNECT {\"verbose\":false}\r\n"+subscribe)))
	return conn
}
