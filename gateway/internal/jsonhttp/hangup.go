package jsonhttp

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

type connKey struct{}

type conn struct {
	net.Conn
	raw syscall.RawConn // nil if there is none
}

// WithConn is http.Server.ConnContext. HungUp, SetWriteBuffer and ReceiveWindow need it.
func WithConn(ctx context.Context, layered net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, socket(layered))
}

// SetWriteBuffer sets the size of the kernel's buffer for what the client has not received, from
// now on.
func SetWriteBuffer(r *http.Request, bytes int) {
	c, _ := r.Context().Value(connKey{}).(conn)
	if buffered, ok := c.Conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = buffered.SetWriteBuffer(bytes) // fails only for a closed connection
	}
}

// ReceiveWindow returns how many bytes more the client's kernel would accept when it last acknowledged some: by what the
// client has not read it is less than before. It is 0 on systems without a way to ask the kernel.
func ReceiveWindow(r *http.Request) (bytes int) {
	if c, _ := r.Context().Value(connKey{}).(conn); c.raw != nil {
		_ = c.raw.Control(func(fd uintptr) { bytes = receiveWindow(fd) }) // fails only for a closed connection
	}
	return bytes
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
	c, _ := r.Context().Value(connKey{}).(conn)
	if c.raw == nil {
		return false
	}
	closed := false
	err := c.raw.Control(func(fd uintptr) { closed = peerClosed(fd) })
	return closed || err != nil // an error: closed by this process
}

func socket(layered net.Conn) (c conn) {
	for {
		layer, ok := layered.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		layered = layer.NetConn()
	}
	c.Conn = layered
	if found, ok := layered.(syscall.Conn); ok {
		c.raw, _ = found.SyscallConn() // nil with an error
	}
	return c
}
