package jsonhttp

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

type connKey struct{}

// WithConn is http.Server.ConnContext. HungUp needs it.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, socket(conn))
}

// HungUp reports whether the client has closed its end of the connection. The request's
// context also ends then, but only when the goroutine that watches the connection runs,
// and not at all if the client has already sent its next request. An answer that is
// written before is lost without an error. On systems without a way to ask the kernel,
// HungUp reports whether the context has ended.
func HungUp(r *http.Request) bool {
	if r.Context().Err() != nil {
		return true
	}
	conn, ok := r.Context().Value(connKey{}).(syscall.RawConn)
	if !ok {
		return false
	}
	closed := false
	err := conn.Control(func(fd uintptr) { closed = peerClosed(fd) })
	return closed || err != nil // an error: closed by this process
}

// socket returns the connection below layers such as TLS, or nil if it is none of the
// kernel's.
func socket(conn net.Conn) syscall.RawConn {
	for {
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = layer.NetConn()
	}
	found, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, _ := found.SyscallConn() // nil with an error
	return raw
}
