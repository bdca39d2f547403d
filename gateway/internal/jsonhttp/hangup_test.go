package jsonhttp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestHungUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system cannot be asked")
	}
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) { testHungUp(t, start) })
	}
}

func testHungUp(t *testing.T, start func(*httptest.Server)) {
	arrived, closed, verdict := make(chan bool), make(chan struct{}), make(chan bool)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- HungUp(r)
		<-closed
		verdict <- HungUp(r)
	}))
	srv.Config.ConnContext = WithConn
	start(srv)
	defer srv.Close()
	dial := func() (net.Conn, error) { return net.Dial("tcp", srv.Listener.Addr().String()) }
	if srv.TLS != nil {
		dial = func() (net.Conn, error) {
			return tls.Dial("tcp", srv.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		}
	}
	// The server is not to go on to a second request, though it has it.
	const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, sent := range map[string]string{
		"after its request":        request,
		"after the next one, too":  request + request,
		"in the middle of another": request + "GET /",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := dial()
			kvslotstest.Must(t, err)
			io.WriteString(conn, sent)
			if <-arrived {
				t.Error("hung up before it has")
			}
			conn.Close()
			closed <- struct{}{}
			if !<-verdict {
				t.Error("not noticed")
			}
		})
	}
}

func TestHungUpWithoutAConnection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if HungUp(r) {
		t.Error("hung up at once")
	}
	cancel()
	if !HungUp(r) {
		t.Error("its context has ended")
	}
}
