package natsembed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

var eventually = kvslotstest.Eventually

func TestMaxConnections(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", MaxConnections: 4})
	defer serve(t, srv).Close()
	for range 3 {
		client(t, srv)
	}
	if nc, err := nats.Connect(srv.ClientURL()); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		nc.Close()
		t.Errorf("one too many: %v", err)
	}
	if n := srv.Clients().Refusals().MaxConnections.Load(); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	defer serve(t, srv).Close() // a service is not refused
	put(t, srv, "the bucket's own connection is not refused")
}

func TestMaxConnectionsPerIP(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", MaxConnectionsPerIP: 2})
	defer serve(t, srv).Close()
	first, _ := client(t, srv)
	client(t, srv)
	if nc, err := nats.Connect(srv.ClientURL()); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		nc.Close()
		t.Errorf("one too many: %v", err)
	}
	if n := srv.Clients().Refusals().MaxConnectionsPerIP.Load(); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	elsewhere := &nats.Options{Url: srv.ClientURL(), CustomDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}}
	nc, err := elsewhere.Connect()
	if err != nil {
		t.Fatalf("from another address: %v", err)
	}
	nc.Close()
	first.Close()
	eventually(t, "the place of a closed connection is free", func() bool {
		nc, err := nats.Connect(srv.ClientURL())
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

func TestMessagesAreBounded(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	nc, _ := client(t, srv)
	if nc.MaxPayload() != 128<<10 {
		t.Errorf("messages may have %d bytes", nc.MaxPayload())
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	kvslotstest.Must(t, err)
	defer conn.Close()
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, "CONNECT {}\r\nSUB _INBOX."+strings.Repeat("x", 2<<10)+" 1\r\n")))
	answer, _ := io.ReadAll(conn) // an error is that of a connection that the server has reset
	if !strings.Contains(string(answer), "maximum control line exceeded") {
		t.Errorf("a long line is answered %q", answer)
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	kvslotstest.Must(t, err)
	defer conn.Close()
	var all strings.Builder
	all.WriteString("CONNECT {\"verbose\":false}\r\n")
	for i := range 257 {
		fmt.Fprintf(&all, "SUB _INBOX.%d %d\r\n", i, i)
	}
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, all.String())))
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("257 subscriptions: %v", err)
		}
		if strings.Contains(line, "maximum subscriptions exceeded") {
			break
		}
	}
}

// Clients that connect at once do not exceed a limit together.
func TestMaxConnectionsAtOnce(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", MaxConnectionsPerIP: 2})
	var accepted atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			nc, err := nats.Connect(srv.ClientURL(), nats.Timeout(time.Minute))
			if err == nil {
				accepted.Add(1)
				t.Cleanup(nc.Close)
			} else if !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := accepted.Load(); n != 2 {
		t.Errorf("%d clients are accepted", n)
	}
}
