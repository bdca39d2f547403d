//go:build peers

package bench

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/cosmo"
)

// startKV starts NATS servers for plain KV, create-if-absent with a TTL, as in
// Cosmo::Job::Limit: one that flushes each write, and one with default settings, which
// flushes every two minutes. They are of the embedded server's version: Debian's has no TTL
// for each entry.
func startKV(ctx context.Context, e *Environment) (baselines []baseline, err error) {
	for _, interval := range []string{"always", "2m"} {
		server, err := startPlainServer(e.cfg.Dir, interval == "always")
		if err != nil {
			return baselines, err
		}
		e.ofRun.add(server.close)
		nc, err := nats.Connect(server.url())
		if err != nil {
			return baselines, err
		}
		e.ofRun.add(func() error { nc.Close(); return nil })
		limiter, err := cosmo.New(ctx, nc, cosmo.Config{})
		if err != nil {
			return baselines, err
		}
		baselines = append(baselines, baseline{name: "plain KV", durability: "sync_interval " + interval, pairs: kvPairs(limiter)})
	}
	return baselines, nil
}

func kvPairs(limiter *cosmo.Limiter) pairer {
	return func(context.Context, int) (action, cleanup, error) {
		base := "bench_" + uuid.NewString()
		return func(ctx context.Context, client int) error {
			slot, err := limiter.Acquire(ctx, fmt.Sprintf("%s_%d", base, client), "bench", 1, longTTL)
			if err != nil {
				return err
			}
			released, err := limiter.Release(ctx, slot)
			if err == nil && !released {
				return errNotReturned
			}
			return err
		}, nil, nil
	}
}
