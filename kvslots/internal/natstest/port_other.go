//go:build !linux

package natstest

import (
	"net"
	"testing"
)

// Port returns a port of 127.0.0.1 for servers that start and stop during the test.
func Port(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
