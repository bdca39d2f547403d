// Package gatewaytest helps with tests of a gateway's APIs: stores, a gateway on a
// port of its own with a client, and a buffer for its log.
package gatewaytest

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// Ready stands in for a store that /ready asks.
type Ready struct{}

// Ready implements what gateway.Config.Store has to.
func (Ready) Ready() error { return nil }

// StartServer starts an embedded server, which ends with the test. Without a data
// directory it has one of its own.
func StartServer(t testing.TB, cfg natsembed.Config) *natsembed.Server {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.Sync = natsembed.SyncInterval
	srv, err := natsembed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// OpenStore opens a store over connections such as those of a server. It is closed
// when the test ends, or by the function that is returned.
func OpenStore(t testing.TB, connect func(...nats.Option) (*nats.Conn, error), cfg kvslots.Config) (store *kvslots.Store, closeIt func()) {
	t.Helper()
	nc, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err = kvslots.Open(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeIt = sync.OnceFunc(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		nc.Close()
	})
	t.Cleanup(closeIt)
	return store, closeIt
}
