package natsstore

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/access"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Bucket is the name of the KV bucket; its stream is "KV_" + Bucket.
const Bucket = bucket.Name

// Format is the number of what entries contain and mean. Stores of one bucket have the same.
const Format = bucket.Format

// Open connects a peer to the bucket, which it creates if it does not exist. It
// blocks until the peer's view is complete, or ctx ends. The caller must close
// the connection only after the Store.
//
// Clients that can subscribe to the connection's inboxes see the hashes in the bucket, and
// can disturb the peer. If other clients use the same NATS, give the connection an inbox
// prefix that they may not subscribe to, such as
// nats.CustomInboxPrefix("_KVSLOTS." + rand.Text()).
//
// The errors are ErrServerTooOld, ErrWrongBucket,
// kvslots.ErrUnavailable, a *kvslots.RangeError
// for the Config, and context.Cause(ctx).
func Open(ctx context.Context, nc *nats.Conn, cfg kvslots.Config) (*kvslots.Store, error) {
	return kvslots.NewStore(cfg, func(cfg kvslots.Config, peer peer.Config, events func([]peer.Event)) (access.Bucket, error) {
		return bucket.Open(ctx, nc, bucket.Config{
			Replicas: cfg.Replicas, Peer: peer, Logger: cfg.Logger, Durable: cfg.Durable, Events: events,
		})
	})
}
