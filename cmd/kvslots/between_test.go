//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// between starts a proxy in front of a gateway. The proxy does not forward requests for
// which answer returns true.
func between(t *testing.T, p *program, answer func(w http.ResponseWriter, r *http.Request) bool) (server string) {
	t.Helper()
	target, err := url.Parse(p.url)
	kvslotstest.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{DisableKeepAlives: true}
	proxy.Transport = transport
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// refusing answers requests to a path with a status, in place of the gateway.
func refusing(t *testing.T, p *program, path string, status int) (server string) {
	return between(t, p, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) {
			return false
		}
		w.WriteHeader(status)
		return true
	})
}

// withoutRenewal answers as a gateway of an old version, without renewal over HTTP.
func withoutRenewal(t *testing.T, p *program) (server string) {
	return refusing(t, p, "/renew", http.StatusNotFound)
}

// relay forwards connections to a server. It refuses connections before the first open,
// and drops them after cut.
type relay struct {
	addr string

	mu     sync.Mutex
	socket int
	ln     net.Listener
	target string
	conns  map[net.Conn]bool
	all    sync.WaitGroup
}

// newRelay picks a port, and does not listen on it yet.
func newRelay(t *testing.T) *relay {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	kvslotstest.Must(t, err)
	syscall.CloseOnExec(socket)
	kvslotstest.Must(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(socket)
	kvslotstest.Must(t, err)
	r := &relay{addr: fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), socket: socket, conns: map[net.Conn]bool{}}
	t.Cleanup(r.close)
	return r
}

// open forwards connections to a server from now on.
func (r *relay) open(t *testing.T, target string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	if r.ln != nil {
		return
	}
	kvslotstest.Must(t, syscall.Listen(r.socket, 128))
	file := os.NewFile(uintptr(r.socket), "relay")
	defer file.Close()
	ln, err := net.FileListener(file)
	kvslotstest.Must(t, err)
	r.ln = ln
	r.all.Go(r.accept)
}

// cut drops every connection from now on.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = ""
	for conn := range r.conns {
		conn.Close()
	}
}

func (r *relay) accept() {
	for {
		near, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		target := r.target
		r.conns[near] = true
		r.mu.Unlock()
		r.all.Go(func() { r.carry(near, target) })
	}
}

func (r *relay) carry(near net.Conn, target string) {
	defer near.Close()
	if target == "" {
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	r.all.Go(func() {
		_, _ = io.Copy(near, far)
		near.Close()
	})
	_, _ = io.Copy(far, near)
}

func (r *relay) close() {
	r.cut()
	if r.ln == nil {
		_ = syscall.Close(r.socket)
		return
	}
	r.ln.Close()
	r.all.Wait()
}
