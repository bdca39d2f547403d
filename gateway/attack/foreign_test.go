package attack

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A web page of any origin can have a browser send such requests to a port of loopback. None of
// their lines is served.
func TestForeignProtocols(t *testing.T) {
	take := "l\ndeploy\n0 3600\nping\n_\n_\n"
	lines := strings.Repeat(take, 3) // so that a request begins at each of three lines
	publish := "CONNECT {\"verbose\":true}\r\nPUB kvslots.session.create _INBOX.a.b 0\r\n\r\nPING\r\n"
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	d := open(t, func(*config) {})
	guarded := open(t, func(c *config) { c.Tokens = gateway.NewTokens("correct-token") })
	nats := strings.TrimPrefix(d.nats, "nats://")
	for _, c := range []struct{ name, to, sent, got string }{
		{"POST", d.tcp, "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\nOrigin: https://evil.example\r\n\r\n" + lines, "error\n"},
		{"POST with a header more", d.tcp, "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\nX: y\r\nOrigin: https://evil.example\r\n\r\n" + lines, "error\n"},
		{"GET", d.tcp, "GET /l%0adeploy%0a HTTP/1.1\r\n" + lines, "error\n"},
		{"method of one letter", d.tcp, "l / HTTP/1.1\r\nHost: evil.example\r\n" + lines, "error\n"},
		{"HTTP/2", d.tcp, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + lines, "error\n"},
		{"TLS with lines in it", d.tcp, hello + "\n" + lines, "error\n"},
		{"STUN with lines in it", d.tcp, "\x00\x01\x00\x40!\x12\xa4B\n" + lines, "error\n"},
		{"unknown command first", d.tcp, "x\n_\n_\n" + lines, "error\n"},
		{"empty line first", d.tcp, "\n" + lines, "error\n"},
		{"HTTP behind a command", d.tcp, "ping\n_\n_\nGET / HTTP/1.1\n" + lines, "ok\nerror\n"},
		{"HTTP in a key", d.tcp, "ping\nGET / HTTP/1.0\n_\n" + lines, "error\n"},
		{"header Host in a key", d.tcp, "ping\nhOST: x\n_\n" + lines, "error\n"},
		{"header Origin in arguments", d.tcp, "ping\n_\nOrigin: null\n" + lines, "error\n"},
		{"POST, with a token", guarded.tcp, "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\n\r\nauth\n_\ncorrect-token\n" + lines, "error_auth\n"},
		{"POST to NATS", nats, "POST / HTTP/1.1\r\nHost: 127.0.0.1:4222\r\n\r\n" + publish, ""},
		{"GET to NATS", nats, "GET / HTTP/1.1\r\nHost: 127.0.0.1:4222\r\n\r\n" + publish, ""},
		{"TLS to NATS", nats, hello + "\r\n" + publish, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", c.to)
			kvslotstest.Must(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, c.sent) // may be closed meanwhile
			got, _ := io.ReadAll(conn)          // may be reset
			if c.to != nats && string(got) != c.got || strings.Contains(string(got), "+OK") || strings.Contains(string(got), "PONG") {
				t.Errorf("got %q, want %q", got, c.got)
			}
		})
	}
	if held := d.metric(t, "kvslots_grants_total") + guarded.metric(t, "kvslots_grants_total"); held != 0 {
		t.Errorf("%v leases were granted", held)
	}
	if opened := d.metric(t, "kvslots_sessions"); opened != 0 {
		t.Errorf("%v sessions were created", opened)
	}
	for _, key := range []string{"Host:x", "origin:", "HTTP/1.1"} { // no page knows the token
		conn, err := net.Dial("tcp", guarded.tcp)
		kvslotstest.Must(t, err)
		fmt.Fprintf(conn, "auth\n_\ncorrect-token\nl\n%s\n0\n", key)
		got := make([]byte, len("ok\nok "))
		if _, err := io.ReadFull(conn, got); string(got) != "ok\nok " {
			t.Errorf("%s: %q %v", key, got, err)
		}
		conn.Close()
	}
}
