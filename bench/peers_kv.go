//go:build peers

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/mod/semver"

	"github.com/kvslots/kvslots/kvslots/cosmo"
)

// ttlVersion is the first version of nats-server with a TTL for each entry.
const ttlVersion = "v2.11.0"

// startKV starts NATS servers for plain KV, create-if-absent with a TTL, as in
// Cosmo::Job::Limit: one that flushes each write, and one with default settings, which
// flushes every two minutes. If the installed server is too old, startKV uses the
// embedded server's version, within this process.
func startKV(ctx context.Context, e *Environment, program string) (baselines []baseline, err error) {
	version := versionOf(program)
	old := semver.Compare("v"+version, ttlVersion) < 0
	if old {
		e.note("nats-server %s has no TTL for each entry (%s has): plain KV runs on the embedded server's version, in this process", version, ttlVersion)
	}
	for _, always := range []bool{true, false} {
		nc, err := e.connectKV(ctx, program, old, always)
		if err != nil {
			return baselines, err
		}
		limiter, err := cosmo.New(ctx, nc, cosmo.Config{})
		if err != nil {
			return baselines, err
		}
		durability := "sync_interval 2m"
		if always {
			durability = "sync_interval always"
		}
		baselines = append(baselines, baseline{name: "plain KV", durability: durability, pairs: kvPairs(limiter)})
	}
	return baselines, nil
}

func (e *Environment) connectKV(ctx context.Context, program string, old, always bool) (*nats.Conn, error) {
	url := ""
	if old {
		server, err := startPlainServer(e.cfg.Dir, always)
		if err != nil {
			return nil, err
		}
		e.stack.add(server.close)
		url = server.url()
	}
	if url == "" {
		return e.connectInstalledKV(ctx, program, always)
	}
	return e.connect(url)
}

func (e *Environment) connect(url string) (*nats.Conn, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	e.stack.add(func() error { nc.Close(); return nil })
	return nc, nil
}

func (e *Environment) connectInstalledKV(ctx context.Context, program string, always bool) (*nats.Conn, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	interval := "2m"
	if always {
		interval = "always"
	}
	var written error
	c, err := e.startChild(program, func(dir string) []string {
		config := filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf("jetstream { store_dir: %q, sync_interval: %s }\n", dir, interval)
		written = os.WriteFile(config, []byte(text), 0o600)
		return []string{"-a", "127.0.0.1", "-p", strconv.Itoa(port), "-c", config}
	})
	if err = errors.Join(err, written); err != nil {
		return nil, err
	}
	var nc *nats.Conn
	err = c.await(ctx, func(context.Context) (err error) {
		nc, err = e.connect(fmt.Sprintf("nats://127.0.0.1:%d", port))
		return err
	})
	return nc, err
}

func kvPairs(limiter *cosmo.Limiter) pairer {
	return func(context.Context, int) (func(ctx context.Context, client int) error, func(ctx context.Context) error, error) {
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
