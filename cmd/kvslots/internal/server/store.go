package server

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

const (
	openTimeout = time.Minute

	// tombstoneSize is how many bytes of the store the marker of a key takes at most.
	tombstoneSize = 512
)

func (s *server) openStore(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if s.store, err = natsstore.Open(ctx, s.nats.nc, s.storeConfig()); err != nil {
		return err
	}
	if err = s.checkReplicas(ctx); err != nil {
		_ = closing(s.store.Close)
	}
	return err
}

func (s *server) storeConfig() kvslots.Config {
	cfg := s.settings.Store()
	server := s.nats.server
	if server != nil && s.settings.Cluster.Given() {
		cfg.Room = func() error { // without Embedded: other nodes reach the bucket, and it flushes before it acknowledges
			if lack := server.Majority(); lack != nil {
				return fmt.Errorf("%w: %w", kvslots.ErrNoMajority, lack)
			}
			return server.Room()
		}
	} else if server != nil {
		cfg.Embedded = server // clients of its listener cannot reach the bucket
		if fit := int(s.settings.Embedded().MaxStore / (4 * tombstoneSize)); fit > 0 && cfg.MaxTombstones > 0 {
			cfg.MaxTombstones = min(cfg.MaxTombstones, fit)
		}
	}
	cfg.Logger = s.log.With("component", "store")
	return cfg
}

// checkReplicas returns an error if --replicas was given and an existing bucket has another
// number: an operator who has asked for three replicas must not rely on one.
func (s *server) checkReplicas(ctx context.Context) error {
	want := s.settings.Replicas
	if want == 0 || s.nats.server != nil {
		return nil
	}
	js, err := jetstream.New(s.nats.nc)
	if err != nil {
		return err
	}
	const name = "KV_" + natsstore.Bucket
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("number of replicas of the bucket: %w", err)
	}
	if is := stream.CachedInfo().Config.Replicas; is != want {
		return fmt.Errorf("the bucket's number of replicas is %d, and --replicas is %d: change one of them; \"nats stream edit %s\" changes the bucket's",
			is, want, name)
	}
	return nil
}
