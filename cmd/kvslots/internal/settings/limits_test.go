package settings

import (
	"testing"

	"github.com/kvslots/kvslots/natsembed"
)

// The store keeps files for itself, however few the process may open.
func TestConnectionsByFiles(t *testing.T) {
	for files, want := range map[uint64]int{64: 16, 128: 32, 512: 128, 1024: 384, 1 << 20: maxConnectionsByFiles, 1 << 63: maxConnectionsByFiles} {
		if got := connectionsFor(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	var s Serve
	if got := s.HTTP().MaxConnections; got < 1 {
		t.Errorf("%d connections by default", got)
	}
	s.http.MaxConnections = 7
	if got := s.HTTP().MaxConnections; got != 7 {
		t.Errorf("got %d connections, and not those of the flag", got)
	}
	if got := s.HTTP().MaxConnectionsPerIP; got != 3 {
		t.Errorf("%d of 7 connections of each client by default", got)
	}
	s.http.MaxConnectionsPerIP = 9
	if got := s.HTTP().MaxConnectionsPerIP; got != 9 {
		t.Errorf("got %d of each client, and not those of the flag", got)
	}
}

// A flood of NATS clients without credentials must leave files for HTTP and the store.
func TestNATSConnectionsByFiles(t *testing.T) {
	var s Serve
	if got, want := s.Embedded().MaxConnections, min(natsembed.DefaultMaxConnections, connectionsFor(openFilesLimit()))+ownConnections; got != want {
		t.Errorf("%d connections by default, want %d", got, want)
	}
	s.embedded.MaxConnections = 5000
	if got := s.Embedded().MaxConnections; got != 5000+ownConnections {
		t.Errorf("got %d connections, and not those of the flag", got)
	}
}
