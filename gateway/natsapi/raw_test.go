package natsapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// rawClient speaks the NATS protocol over a socket, without a client library.
type rawClient struct {
	conn  net.Conn
	lines *bufio.Reader
}

func dialRaw(t *testing.T, address string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{conn, bufio.NewReader(conn)}
	if info := c.line(t); !strings.HasPrefix(info, "INFO {") {
		t.Fatalf("the server sends %q", info)
	}
	c.send(t, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB _INBOX.me 1\r\nPING\r\n")
	if pong := c.line(t); pong != "PONG" {
		t.Fatalf("the server sends %q", pong)
	}
	return c
}

func (c *rawClient) send(t *testing.T, text string) {
	t.Helper()
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(c.conn, text)))
}

func (c *rawClient) line(t *testing.T) string {
	t.Helper()
	line, err := c.lines.ReadString('\n')
	kvslotstest.Must(t, err)
	return strings.TrimSuffix(line, "\r\n")
}

// ask sends a request and reads the header and the body of its answer.
func (c *rawClient) ask(t *testing.T, op, body string) (header, answer string) {
	t.Helper()
	c.send(t, fmt.Sprintf("PUB kvslots.%s _INBOX.me %d\r\n%s\r\n", op, len(body), body))
	var head, total int
	first := c.line(t)
	switch words := strings.Fields(first); words[0] {
	case "MSG": // MSG _INBOX.me 1 [reply] 17
		fmt.Sscan(words[len(words)-1], &total)
	case "HMSG": // HMSG _INBOX.me 1 [reply] 40 57
		fmt.Sscan(words[len(words)-2], &head)
		fmt.Sscan(words[len(words)-1], &total)
	default:
		t.Fatalf("the server sends %q", first)
	}
	payload := make([]byte, total+2)
	kvslotstest.Must(t, kvslotstest.Err(io.ReadFull(c.lines, payload)))
	return string(payload[:head]), string(payload[head:total])
}

func TestRawSocket(t *testing.T) {
	srv, store := openStore(t)
	startService(t, srv, store)
	c := dialRaw(t, srv.Addr().String())
	want := func(op, body, answer string) string {
		t.Helper()
		_, got := c.ask(t, op, body)
		if !regexp.MustCompile("^" + answer + "$").MatchString(got) {
			t.Fatalf("%s %s: got %s, want %s", op, body, got, answer)
		}
		return got
	}
	want("register", `{"id":"`+poolA+`","count":1}`, `{"id":"`+poolA+`","count":1,"in_use":0,"available":1,"waiting":0}`)
	granted := want("borrow", `{"id":"`+poolA+`","ttl":30}`, `{"lease":"[-0-9a-f]{36}","position":0,"expires_at_unix":\d+,"expires_in":30,"fence":\d+}`)
	lease := leaseID.FindStringSubmatch(granted)[1]
	header, answer := c.ask(t, "borrow", `{"id":"`+poolA+`","ttl":30}`)
	if answer != `{"error":"no resource available"}` ||
		!strings.Contains(header, "Nats-Service-Error: no resource available\r\n") ||
		!strings.Contains(header, "Nats-Service-Error-Code: 409\r\n") {
		t.Errorf("the second borrower got %s, header %q", answer, header)
	}
	want("renew", `{"id":"`+poolA+`","lease":"`+lease+`","ttl":60}`, `{"lease":"`+lease+`","position":0,"expires_at_unix":\d+,"expires_in":60,"fence":\d+}`)
	want("return", `{"id":"`+poolA+`","lease":"`+lease+`"}`, `{"returned":true}`)
	want("return", `{"id":"`+poolA+`","lease":"`+lease+`"}`, `{"returned":false}`)
}
