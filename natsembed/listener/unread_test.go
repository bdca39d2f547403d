package listener

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// silent connects a client that subscribes to _INBOX.> and never reads again.
func silent(t *testing.T, srv *guarded) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	clients := srv.guard.NumClients()
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB _INBOX.> 1\r\n")))
	kvslotstest.Eventually(t, "a client more", func() bool { return srv.guard.NumClients() > clients })
	return conn
}

// pending returns how many bytes the server keeps for clients.
func pending(t *testing.T, srv *guarded) (bytes int) {
	t.Helper()
	open, err := srv.Connz(&server.ConnzOptions{Account: testAccount})
	kvslotstest.Must(t, err)
	for _, client := range open.Conns {
		bytes += client.Pending
	}
	return bytes
}

// A client that does not read what it is sent is disconnected when 1 MiB is waiting for
// it, not at the 64 MiB of nats-server's own limit.
func TestClientsThatDoNotReadAreDisconnected(t *testing.T) {
	srv := start(t)
	service := srv.serve(t, srv)
	reader := srv.client(t)
	for range 3 {
		silent(t, srv)
	}
	answer := make([]byte, 64<<10)
	for sent := 0; srv.guard.NumClients() > 1; sent += len(answer) {
		if sent > 48<<20 {
			t.Fatalf("%d bytes are kept for clients", pending(t, srv))
		}
		kvslotstest.Must(t, errors.Join(service.Publish("_INBOX.x", answer), service.Flush()))
		srv.guard.disconnectUnread()
	}
	if _, err := reader.Request("kvslots.inspect", nil, 10*time.Second); err != nil {
		t.Errorf("a client that reads: %v", err)
	}
	if n := srv.guard.Refusals().Unread.Load(); n < 3 {
		t.Errorf("%d clients that do not read are counted", n)
	}
}

// A connection that reads slowly is not closed: nats-server would otherwise close that of
// the gateway when a flood takes longer to read than writeDeadline.
func TestSlowReadersStayConnected(t *testing.T) {
	options := &server.Options{DontListen: true, NoSigs: true}
	Limits{}.Apply(options)
	options.WriteDeadline = time.Second
	srv, err := server.NewServer(options)
	kvslotstest.Must(t, err)
	srv.Start()
	defer srv.Shutdown()
	conn, err := srv.InProcessConn()
	kvslotstest.Must(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	expect := func(want string) {
		t.Helper()
		if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("the server sends %q, %v; want %q", line, err, want)
		}
	}
	expect("INFO")
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPING\r\n")))
	expect("PONG")
	publisher, err := nats.Connect("", nats.InProcessServer(srv))
	kvslotstest.Must(t, err)
	defer publisher.Close()
	const messages = 16
	for range messages {
		kvslotstest.Must(t, publisher.Publish("a", make([]byte, maxPayload/2)))
	}
	kvslotstest.Must(t, publisher.Flush())
	for tick := time.NewTicker(10 * time.Millisecond); srv.NumSlowConsumers() == 0; <-tick.C {
		kvslotstest.Must(t, kvslotstest.Err(conn.Read(make([]byte, 1))))
	}
	kvslotstest.Must(t, publisher.Publish("a", []byte("last")))
	kvslotstest.Must(t, publisher.Flush())
	for last := ""; last != "last\r\n"; {
		last, err = reader.ReadString('\n')
		kvslotstest.Must(t, err)
	}
}
