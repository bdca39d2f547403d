package gatewaytest

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// Ready is a store that is always ready.
type Ready struct{}

func (Ready) Ready() error { return nil }

func (Ready) ID() string { return "" }

// StartServer starts an embedded server, and stops it when the test ends. Without a
// data directory it uses a temporary one.
func StartServer(t testing.TB, cfg natsembed.Config) *natsembed.Server {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.Sync, cfg.Logger = natsembed.SyncInterval, logtest.Logger()
	srv, err := natsembed.Start(t.Context(), cfg)
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		logtest.SearchDir(cfg.DataDir)
	})
	return srv
}

// OpenStore opens a store over a connection that connect makes. The store is closed
// when the test ends, or when closeIt is called.
func OpenStore(t testing.TB, connect func(...nats.Option) (*nats.Conn, error), cfg kvslots.Config) (store *kvslots.Store, closeIt func()) {
	t.Helper()
	nc, err := connect()
	kvslotstest.Must(t, err)
	cfg.Logger = logtest.Logger()
	store, err = natsstore.Open(t.Context(), nc, cfg)
	kvslotstest.Must(t, err)
	closeIt = sync.OnceFunc(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		nc.Close()
	})
	t.Cleanup(closeIt)
	return store, closeIt
}

// Eventually is kvslotstest.Eventually.
var Eventually = kvslotstest.Eventually
