package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestDrain(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	g.cfg.DrainWait = time.Minute // ended by the test
	addr, served := serve(t, g)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	waiter := make(chan string, 1)
	go func() { waiter <- fetch(t, client, "http://"+addr+"/borrow") }()
	for g.cfg.Lending.Open() == 0 {
		time.Sleep(time.Millisecond)
	}

	haste, hurry := context.WithCancel(t.Context())
	defer hurry()
	drained := make(chan error, 1)
	go func() { drained <- g.Drain(haste) }()

	if got := <-waiter; got != "draining" {
		t.Errorf("the waiter got %q", got)
	}
	if got := fetch(t, client, "http://"+addr+"/borrow"); got != "draining" {
		t.Errorf("a new borrower got %q", got)
	}
	if got := fetch(t, client, "http://"+addr+"/ready"); got != `{"status":"draining"}` {
		t.Errorf("/ready says %s", got)
	}
	if got := fetch(t, client, "http://"+addr+"/t/1"); got != "ok" {
		t.Errorf("something else is answered %q while draining", got)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained before the wait was over: %v", err)
	default:
	}
	hurry()
	if err := errors.Join(<-drained, <-served); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the listener is still open")
	}
}

// finisher gives up when its context ends, and then lets the request be answered.
type finisher struct{ entered, gaveUp chan struct{} }

func (f finisher) Finish(ctx context.Context) {
	<-ctx.Done()
	close(f.gaveUp)
}

func (f finisher) Mount(r chi.Router) {
	r.Get("/work", func(w http.ResponseWriter, _ *http.Request) {
		close(f.entered)
		<-f.gaveUp
		io.WriteString(w, "given up")
	})
}

// Work that outlasts the drain is given up, and its request is answered.
func TestDrainGivesWorkUp(t *testing.T) {
	f := finisher{make(chan struct{}), make(chan struct{})}
	g := New(Config{Store: storeState{}, Dialects: []Dialect{f}, Finishers: []Finisher{f}, Logger: logtest.Logger()})
	g.cfg.ShutdownTimeout = 50 * time.Millisecond
	addr, served := serve(t, g)
	conn := dial(t, addr)
	io.WriteString(conn, "GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
	<-f.entered
	if err := errors.Join(g.Drain(t.Context()), <-served); err != nil {
		t.Error(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	kvslotstest.Must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "given up" {
		t.Errorf("%s, %v", body, err)
	}
}

// A request that does not end is cut off at last, and Drain returns an error.
func TestDrainNamesWhatItCuts(t *testing.T) {
	f := finisher{make(chan struct{}), make(chan struct{})}
	g := New(Config{Store: storeState{}, Dialects: []Dialect{f}, Logger: logtest.Logger()})
	g.cfg.ShutdownTimeout = 50 * time.Millisecond
	addr, served := serve(t, g)
	conn := dial(t, addr)
	defer close(f.gaveUp)
	io.WriteString(conn, "GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
	<-f.entered
	err := errors.Join(g.Drain(t.Context()), <-served)
	if err == nil || !strings.Contains(err.Error(), "requests were cut short") || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A request whose header is still arriving when the listener closes is answered.
func TestDrainAnswersWhatHasConnected(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	addr, served := serve(t, g)
	conn := dial(t, addr)
	for g.connections.busy.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	drained := make(chan error, 1)
	go func() { drained <- g.Drain(t.Context()) }()
	for closed := false; !closed; { // the listener
		other, err := net.Dial("tcp", addr)
		if closed = err != nil; !closed {
			other.Close()
		}
	}
	io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	kvslotstest.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("%d, close %t", resp.StatusCode, resp.Close)
	}
	if err := errors.Join(<-drained, <-served); err != nil {
		t.Error(err)
	}
}

// lateListener accepts a connection while it is being closed, and no other one.
type lateListener struct {
	*pipeListener
	accepting chan struct{} // closed by the first Accept
	conn      net.Conn
}

func (l *lateListener) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, net.ErrClosed
	}
	close(l.accepting)
	<-l.closed
	return conn, nil
}

// A connection that is accepted just when the listener closes is answered.
func TestDrainAnswersWhatIsBeingAccepted(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	conn, theirs := net.Pipe()
	defer conn.Close()
	ln := &lateListener{newPipeListener(), make(chan struct{}), pipeConn{theirs, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}}
	served, drained := make(chan error, 1), make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	<-ln.accepting
	go func() { drained <- g.Drain(t.Context()) }()
	go io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	kvslotstest.Must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Error(resp.StatusCode)
	}
	if err := errors.Join(<-drained, <-served); err != nil {
		t.Error(err)
	}
}

// A connection that the client wants to keep is closed with the answer.
func TestDrainAsksClientsToLeave(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	addr, served := serve(t, g)
	conn := dial(t, addr)
	answers := bufio.NewReader(conn)
	ask := func() *http.Response {
		t.Helper()
		io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(answers, nil)
		kvslotstest.Must(t, err)
		io.Copy(io.Discard, resp.Body)
		return resp
	}
	if ask().Close {
		t.Error("closed without need")
	}
	g.cfg.Lending.Stop()
	if !ask().Close {
		t.Error("not closed while draining")
	}
	if err := errors.Join(g.Drain(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	ln.Close()
	if err := g.Serve(ln); err == nil {
		t.Error("no error")
	}
}

// fetch returns an answer's body. It may be called from any goroutine.
func fetch(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
