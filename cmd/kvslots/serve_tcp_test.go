package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// lineConn is a connection at --tcp-addr.
type lineConn struct {
	net.Conn
	replies *bufio.Reader
}

// dialTCP connects to the address in the log.
func (p *program) dialTCP(t *testing.T, dial func(addr string) (net.Conn, error)) *lineConn {
	t.Helper()
	conn, err := dial(p.logs.waitFor(t, "listening")["tcp"].(string))
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &lineConn{conn, bufio.NewReader(conn)}
}

func plain(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }

// do sends a request and returns the reply, or what ends the connection.
func (c *lineConn) do(t *testing.T, command, key, args string) string {
	t.Helper()
	if _, err := fmt.Fprintf(c, "%s\n%s\n%s\n", command, key, args); err != nil {
		t.Error(err)
	}
	return c.reply()
}

func (c *lineConn) reply() string {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := c.replies.ReadString('\n')
	if err == io.EOF {
		return line + "closed"
	}
	return strings.TrimSuffix(line, "\n")
}

// The token of HTTP, statistics over both transports, and the drain.
func TestServeTCP(t *testing.T) {
	t.Parallel()
	p := startServe(t, map[string]string{"KVSLOTS_AUTH_TOKEN": secretToken}, "--data-dir", t.TempDir(), "--tcp-addr", "127.0.0.1:0")
	idle := p.dialTCP(t, plain)
	if got := idle.do(t, "auth", "_", secretToken); got != "ok" {
		t.Fatalf("with the token: %q", got)
	}
	holder := p.dialTCP(t, plain)
	holder.do(t, "auth", "_", secretToken)
	words := strings.Fields(holder.do(t, "l", "deploy", "10 60"))
	if len(words) != 3 || words[0] != "ok" || words[2] != "60" {
		t.Fatal(words)
	}
	code, _, stats := p.askWith(t, map[string][]string{"Authorization": {"Bearer " + secretToken}}, "GET", "/v1/stats", "")
	if code != 200 || !strings.Contains(stats, `"connections":2`) || !strings.Contains(stats, `"key":"deploy"`) {
		t.Errorf("statistics over HTTP: %s", stats)
	}
	if got := idle.do(t, "stats", "_", "_"); !strings.HasPrefix(got, `ok {"connections":2,"locks":[{"key":"deploy",`) {
		t.Errorf("statistics over TCP: %s", got)
	}
	if got := p.dialTCP(t, plain).do(t, "ping", "_", "_"); got != "error_auth" {
		t.Errorf("without the token: %q", got)
	}
	p.end(t)
	for name, c := range map[string]*lineConn{"idle": idle, "holder": holder} {
		if got := c.reply() + ", " + c.reply(); got != "error_draining, closed" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The certificate of HTTP.
func TestServeTCPWithTLS(t *testing.T) {
	cert, key := selfSigned(t)
	p := startTLS(t, "--tls-cert", cert, "--tls-key", key, "--tcp-addr", "127.0.0.1:0")
	config := &tls.Config{InsecureSkipVerify: true}
	c := p.dialTCP(t, func(addr string) (net.Conn, error) { return tls.Dial("tcp", addr, config) })
	if got := c.do(t, "ping", "_", "_"); got != "ok" {
		t.Errorf("over TLS: %q", got)
	}
}

func TestServeTCPOnAUsedAddress(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	defer ln.Close()
	p := runServe(t, noEnv, "--data-dir", t.TempDir(), "--tcp-addr", ln.Addr().String())
	if got := p.exitCode(t); got != exitFailed || !strings.Contains(p.logs.String(), "TCP: listen") {
		t.Errorf("exit code %d:\n%s", got, p.logs)
	}
}
