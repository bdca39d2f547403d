package jsonhttp

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

type connKey struct{}

// WithConn is for http.Server's ConnContext; HungUp needs it.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// HungUp reports whether the client has closed its end by now. The request's
// context ends with the connection, too, but only when the goroutine that
// watches it gets to run, and not at all when the client had sent its next
// request already; an answer written in between would be lost without an
// error. Where the system cannot be asked it is the context that says.
func HungUp(r *http.Request) bool {
	if r.Context().Err() != nil {
		return true
	}
	conn, ok := r.Context().Value(connKey{}).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // closed on our side
	}
	closed := false
	if err := raw.Control(func(fd uintptr) { closed = peerClosed(fd) }); err != nil {
		return true
	}
	return closed
}
