package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots/cosmo"
)

// startKV starts NATS servers for plain KV, create-if-absent with a TTL, as in
// Cosmo::Job::Limit: one that flushes each write, and one with default settings, which
// flushes every two minutes. They are of the embedded server's version: Debian's has no TTL
// for each entry.
func startKV(ctx context.Context, s *servers) error {
	for _, interval := range []string{"always", "2m"} {
		server, err := startPlainServer(s.dir, interval == "always")
		if err != nil {
			return err
		}
		s.add(server.close)
		nc, err := nats.Connect(server.url())
		if err != nil {
			return err
		}
		s.add(func() error { nc.Close(); return nil })
		limiter, err := cosmo.New(ctx, nc, cosmo.Config{})
		if err != nil {
			return err
		}
		s.baselines = append(s.baselines, bench.Baseline{Name: "plain KV", Durability: "sync_interval " + interval, Pairs: kvPairs(limiter)})
	}
	return nil
}

func kvPairs(limiter *cosmo.Limiter) bench.Pairer {
	return func(context.Context, int) (func(context.Context, int) error, func(context.Context) error, error) {
		base := "bench_" + uuid.NewString()
		return func(ctx context.Context, client int) error {
			slot, err := limiter.Acquire(ctx, fmt.Sprintf("%s_%d", base, client), "bench", 1, leaseTTL)
			if err != nil {
				return err
			}
			return limiter.Release(ctx, slot)
		}, nil, nil
	}
}
