package listener

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// An address rests longer after each flood, and a flood is forgotten in time.
func TestFloodsRest(t *testing.T) {
	var f floods
	address, other := addressOf("192.0.2.1"), addressOf("192.0.2.2")
	now := time.Now()
	wantLeft := func(want time.Duration) {
		t.Helper()
		if left := f.left(address, now); left != want {
			t.Errorf("the address rests for %v more, want %v", left, want)
		}
	}
	next := func(after time.Duration) {
		now = now.Add(after)
		f.note(address, now)
	}
	if f.left(address, now) > 0 {
		t.Error("an address rests without a flood")
	}
	next(0)
	wantLeft(floodRest)
	next(floodRest / 2)
	wantLeft(floodRest) // the same flood
	for _, want := range []time.Duration{2, 4, 8, 16, 16} {
		next(f.left(address, now) + time.Second)
		wantLeft(want * floodRest)
	}
	if f.left(other, now) > 0 {
		t.Error("another address rests")
	}
	next(maxFloodRest + floodMemory + 1)
	wantLeft(floodRest)
	if len(f.rests) != 1 {
		t.Errorf("%d addresses are kept", len(f.rests))
	}
}

// A connection from an address that rests waits, and is refused if that takes too long.
func TestRestsAreAwaited(t *testing.T) {
	address := addressOf("192.0.2.1")
	for _, c := range []struct {
		name         string
		floods       int // each after the rest of the one before
		rested       bool
		waits        time.Duration
		stopsDuring  time.Duration // 0: never
		floodsDuring time.Duration // another flood; 0: none
	}{
		{name: "no flood", rested: true},
		{name: "a flood", floods: 1, rested: true, waits: floodRest},
		{name: "a further one during the rest", floods: 1, floodsDuring: floodRest / 2, rested: true, waits: floodRest * 3 / 2},
		{name: "many floods", floods: 5, waits: maxFloodWait},
		{name: "a server that stops", floods: 1, stopsDuring: floodRest / 2, waits: floodRest / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				g := New(Config{}, stopping)
				now := time.Now()
				for range c.floods {
					now = now.Add(max(0, g.floods.left(address, now)) + 1)
					g.floods.note(address, now)
				}
				time.Sleep(time.Until(now))
				if c.stopsDuring > 0 {
					time.AfterFunc(c.stopsDuring, func() { close(stopping) })
				}
				if c.floodsDuring > 0 {
					time.AfterFunc(c.floodsDuring, func() { g.floods.note(address, time.Now()) })
				}
				rested := g.awaitRest(address)
				if waited := time.Since(now); rested != c.rested || waited != c.waits {
					t.Errorf("rested %v after %v, want %v after %v", rested, waited, c.rested, c.waits)
				}
			})
		})
	}
}

// No client is accepted from an address that rests.
func TestClientsOfRestingAddressWait(t *testing.T) {
	srv := start(t)
	address := addressOf("127.0.0.1")
	srv.guard.floods.note(address, time.Now())
	srv.client(t)
	if left := srv.guard.floods.left(address, time.Now()); left > 0 {
		t.Errorf("a client is accepted %v before the rest is over", left)
	}
}

// silent connects a client that subscribes to _INBOX.> and never reads again.
func silent(t *testing.T, srv *guarded) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	clients := srv.guard.NumClients()
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB _INBOX.> 1\r\n"); err != nil {
		t.Fatal(err)
	}
	kvslotstest.Eventually(t, "a client more", func() bool { return srv.guard.NumClients() > clients })
	return conn
}

// pending returns how many bytes the server keeps for clients.
func pending(t *testing.T, srv *guarded) (bytes int) {
	t.Helper()
	open, err := srv.Connz(&server.ConnzOptions{Account: testAccount})
	if err != nil {
		t.Fatal(err)
	}
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
		if err := errors.Join(service.Publish("_INBOX.x", answer), service.Flush()); err != nil {
			t.Fatal(err)
		}
		srv.guard.disconnectSlow(nil)
	}
	if _, err := reader.Request("kvslots.inspect", nil, 10*time.Second); err != nil {
		t.Errorf("a client that reads: %v", err)
	}
	if n := srv.guard.Refusals().Unread.Load(); n < 3 {
		t.Errorf("%d clients that do not read are counted", n)
	}
}

// stalling connects within the process. Its connections read nothing while mu is locked, as
// in a process that cannot keep up.
type stalling struct {
	srv *guarded
	mu  sync.Mutex
}

func (s *stalling) InProcessConn() (net.Conn, error) {
	conn, err := s.srv.InProcessConn()
	return stalled{conn, s}, err
}

type stalled struct {
	net.Conn
	of *stalling
}

func (s stalled) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return n, err
}

// A client that sends more than the gateway can read is disconnected before nats-server
// closes the gateway's own connection, with which the requests of all clients are lost.
func TestFloodsAreDisconnected(t *testing.T) {
	srv := start(t)
	gateway := &stalling{srv: srv}
	srv.serve(t, gateway)
	honest := srv.client(t, nats.NoReconnect())
	flood := silent(t, srv)

	gateway.mu.Lock()
	go func() {
		request := []byte("PUB kvslots.cancel 65536\r\n" + strings.Repeat("x", 64<<10) + "\r\n")
		for {
			if _, err := flood.Write(request); err != nil {
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, flood) // until it is disconnected
	gateway.mu.Unlock()
	if left := srv.guard.floods.left(addressOf("127.0.0.1"), time.Time{}); left <= 0 {
		t.Error("the address of the flood does not rest")
	}
	if srv.guard.Refusals().Flood.Load() == 0 {
		t.Error("the flood is not counted")
	}
	kvslotstest.Eventually(t, "another client is answered", func() bool { // the service may have to connect again
		_, err := honest.Request("kvslots.inspect", nil, 10*time.Second)
		return err == nil
	})
}

// Connections that flood the gateway together are disconnected, although each sends little,
// until the rest is no flood.
func TestFloodsOverManyConnectionsAreDisconnected(t *testing.T) {
	srv := start(t)
	gateway := &stalling{srv: srv}
	srv.serve(t, gateway)
	request := "PUB kvslots.cancel 65536\r\n" + strings.Repeat("x", 64<<10) + "\r\n"
	each := strings.Repeat(request, floodBytes/len(request)-1)
	var floods []net.Conn
	for range 2 + (floodTotal+maxBacklog)/len(each) { // a backlog below maxBacklog does not count yet
		floods = append(floods, silent(t, srv))
	}
	gateway.mu.Lock()
	defer gateway.mu.Unlock()
	disconnected := make(chan struct{}, len(floods))
	for _, flood := range floods {
		go func() {
			_, _ = io.WriteString(flood, each)
			_, _ = io.Copy(io.Discard, flood)
			disconnected <- struct{}{}
		}()
	}
	<-disconnected
}

// A connection that reads slowly is not closed: nats-server would otherwise close that of
// the gateway when a flood takes longer to read than writeDeadline.
func TestSlowReadersStayConnected(t *testing.T) {
	options := &server.Options{DontListen: true, NoSigs: true}
	Limits{}.Apply(options)
	options.WriteDeadline = time.Second
	srv, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	conn, err := srv.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	expect := func(want string) {
		t.Helper()
		if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("the server sends %q, %v; want %q", line, err, want)
		}
	}
	expect("INFO")
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	expect("PONG")
	publisher, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	const messages = 16
	for range messages {
		if err := publisher.Publish("a", make([]byte, maxPayload/2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := publisher.Flush(); err != nil {
		t.Fatal(err)
	}
	for tick := time.NewTicker(10 * time.Millisecond); srv.NumSlowConsumers() == 0; <-tick.C {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := publisher.Publish("a", []byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := publisher.Flush(); err != nil {
		t.Fatal(err)
	}
	for last := ""; last != "last\r\n"; {
		if last, err = reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}
