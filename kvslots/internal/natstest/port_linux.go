package natstest

import (
	"errors"
	"syscall"
	"testing"
)

// Port returns a port of 127.0.0.1 for servers that start and stop during the test.
// Connections are refused while no server listens there. Until the end of the test the
// kernel gives the port to no socket that asks for any port.
func Port(t testing.TB) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	// With SO_REUSEADDR a listener, for which package net sets it too, may have the
	// same port as a socket that does not listen.
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet4).Port
}
