package listener

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A web page may send an HTTP request to the port. The server closes the connection before it
// serves a line of the body.
func TestHTTPRequestsAreServedNothing(t *testing.T) {
	srv := start(t)
	received := make(chan *nats.Msg, 10)
	nc := srv.client(t)
	kvslotstest.Must(t, kvslotstest.Err(nc.ChanSubscribe(">", received)))
	kvslotstest.Must(t, nc.Flush())
	body := "CONNECT {\"verbose\":false}\r\nPUB kvslots.lock.acquire 2\r\n{}\r\nPING\r\n"
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: 127.0.0.1:4222\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"SUB /x HTTP/1.1\r\nHost: evil.example\r\n\r\n", "PING / HTTP/1.1\r\nHost: evil.example\r\n\r\n", // same origin, by DNS rebinding
		"CONNECT / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
		kvslotstest.Must(t, err)
		defer conn.Close()
		kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, request+body)))
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if reply, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) { // it may be reset
			t.Errorf("%q: %q, %v", request, reply, err)
		}
	}
	kvslotstest.Must(t, nc.Flush())
	select {
	case m := <-received:
		t.Errorf("a page has published on %s", m.Subject)
	default:
	}
}
