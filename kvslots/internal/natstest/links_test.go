package natstest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A leader whose routes are cut is replaced, and follows again when they heal. Its client
// stays connected.
func TestCutRoutes(t *testing.T) {
	c := StartLinkedCluster(t)
	js, err := jetstream.New(c.Connect(), jetstream.WithDefaultTimeout(startTimeout))
	Must(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
	Must(t, err)
	for _, cut := range []Cut{Refuse, BlackHole} {
		leader := c.StreamLeader("S")
		client := leader.Connect()
		c.CutRoutes(leader, cut)
		Eventually(t, "another leader", func() bool {
			for _, s := range c.Servers {
				if s != leader && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, "S") {
					return true
				}
			}
			return false
		})
		if cut == Refuse && leader.NumRoutes() > 0 {
			t.Errorf("a server with refused routes has %d", leader.NumRoutes())
		}
		c.HealRoutes(leader)
		Eventually(t, "three current copies", func() bool {
			i, err := stream.Info(t.Context())
			if err != nil || i.Cluster == nil || len(i.Cluster.Replicas) != 2 {
				return false
			}
			return i.Cluster.Replicas[0].Current && i.Cluster.Replicas[1].Current
		})
		if n := client.Stats().Reconnects; n > 0 {
			t.Errorf("the client reconnected %d times", n)
		}
	}
}

func TestProxy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	defer listener.Close()
	p := startProxy(t, Port(t), listener.Addr().String())
	connect := func() (here, there net.Conn) {
		t.Helper()
		here, err := net.Dial("tcp", p.addr)
		Must(t, err)
		there, err = listener.Accept()
		Must(t, err)
		t.Cleanup(func() { here.Close(); there.Close() })
		return here, there
	}
	send := func(to net.Conn, text string) {
		t.Helper()
		Must(t, Err(to.Write([]byte(text))))
	}
	receive := func(from net.Conn, text string) {
		t.Helper()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != text {
			t.Errorf("got %q, %v, not %q", got, err, text)
		}
	}

	here, there := connect()
	send(here, "ping")
	receive(there, "ping")
	send(there, "pong")
	receive(here, "pong")

	Must(t, p.cut(BlackHole))
	send(here, "held")
	silent(t, there)
	there.Close() // reaches the other side only later
	silent(t, here)
	Must(t, p.heal())
	if _, err := io.ReadAll(here); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}

	here, there = connect()
	p.reset()
	for _, c := range []net.Conn{here, there} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that is reset ends with %v", err)
		}
	}
	connect() // at once

	Must(t, p.cut(Refuse))
	if _, err := net.Dial("tcp", p.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialed: %v", err)
	}
	Must(t, p.cut(BlackHole))
	here, err = net.Dial("tcp", p.addr)
	Must(t, err)
	defer here.Close()
	send(here, "first")
	Must(t, p.heal())
	there, err = listener.Accept()
	Must(t, err)
	defer there.Close()
	receive(there, "first")
}

// silent fails the test if anything arrives, or the connection ends.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	Must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	Must(t, c.SetReadDeadline(time.Time{}))
}
