package dflockdtcp_test

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

// A web page of any origin may send such requests to a port of loopback. None of their lines is
// served.
func TestForeignProtocols(t *testing.T) {
	take := "l\ndeploy\n0 3600\nping\n_\n_\n"
	body := strings.Repeat(take, 3) // so that a request begins at each of three lines
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	f := openFixture(t, openStore(t, kvslots.Config{}))
	for _, c := range []struct{ name, sent, reply string }{
		{"POST", "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\nOrigin: https://evil.example\r\n\r\n" + body, "error"},
		{"POST with a header more", "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\nX: y\r\nOrigin: https://evil.example\r\n\r\n" + body, "error"},
		{"GET", "GET /l%0adeploy%0a HTTP/1.1\r\n" + body, "error"},
		{"method of one letter", "l / HTTP/1.1\r\nHost: evil.example\r\n" + body, "error"},
		{"method without an end", "POST /", "error"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + body, "error"},
		{"TLS", hello, "error"},
		{"TLS with lines in it", hello + "\n" + body, "error"},
		{"STUN with lines in it", "\x00\x01\x00\x40!\x12\xa4B\n" + body, "error"},
		{"unknown command first", "x\n_\n_\n" + body, "error"},
		{"empty line first", "\n" + body, "error"},
		{"HTTP behind a command", "ping\n_\n_\nGET / HTTP/1.1\n" + body, "ok error"},
		{"HTTP in a key", "ping\nGET / HTTP/1.0\n_\n" + body, "error"},
		{"header Host in a key", "ping\nhOST: x\n_\n" + body, "error"},
		{"header Origin in arguments", "ping\n_\nOrigin: null\n" + body, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := f.dial(t)
			conn.send(t, c.sent)
			for _, want := range append(strings.Fields(c.reply), "(closed)") {
				if got := conn.reply(t); got != want {
					t.Errorf("reply %q, want %q", got, want)
				}
			}
			conn.Close() // the server waits for a second otherwise
			f.nothingHeld(t)
		})
	}
	f = openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) { c.Tokens = ops.NewTokens("correct-token") })
	conn := f.dial(t)
	conn.send(t, "POST / HTTP/1.1\r\nHost: 127.0.0.1:6388\r\n\r\nauth\n_\ncorrect-token\n")
	if got := conn.reply(t); got != "error_auth" {
		t.Errorf("with a token: %q", got)
	}
	for _, key := range []string{"Host:x", "origin:", "HTTP/1.1"} {
		f.dial(t).want(t, "auth", "_", "correct-token", "ok")
		conn := f.dial(t)
		conn.want(t, "auth", "_", "correct-token", "ok")
		conn.take(t, "l", key, "0")
	}
}
