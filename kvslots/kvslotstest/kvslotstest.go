// Package kvslotstest is for tests of programs that use kvslots: New gives a store that works,
// with a nats-server in the process of the test. All of it ends with the test, listens on
// loopback only, on ports that the kernel picks, and keeps its data in a directory of the test.
package kvslotstest

import (
	"context"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// closeTimeout bounds the closing of a store, which waits for its pending writes.
const closeTimeout = time.Minute

// New returns a store in a bucket of its own, which is empty, with a Config, or the zero one. For several peers of one bucket
// start a server, and open a store on a connection for each: see Start.
func New(t testing.TB, configs ...kvslots.Config) *kvslots.Store {
	t.Helper()
	var cfg kvslots.Config
	if len(configs) > 0 {
		cfg = configs[0]
	}
	store, err := natsstore.Open(t.Context(), Start(t, "").Connect(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Server is a nats-server with JetStream. Its Stop and Restart simulate an outage.
type Server = natstest.Server

// Cluster is a cluster of three nats-servers with JetStream.
type Cluster = natstest.Cluster

var (
	// Start starts a Server that keeps its data in a directory; "" means a new one. The
	// functions change may modify its options.
	Start = natstest.Start

	// StartCluster starts a Cluster, and waits until it is ready.
	StartCluster = natstest.StartCluster

	// Port returns a free port of loopback.
	Port = natstest.Port

	// Eventually waits for a condition, and fails the test if it is not met within five minutes.
	Eventually = natstest.Eventually

	// Must ends the test if there is an error.
	Must = natstest.Must
)

// Err returns the error of a call of which nothing else is wanted, for Must.
func Err[T any](_ T, err error) error { return err }
