package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/kvslots/kvslots/bench"
)

// The semaphore is the usual one: a sorted set of holders by the ends of their leases.
// It has no line, no positions and no fences.
var (
	redisAcquire = redis.NewScript(`
		local now = redis.call('TIME')
		local ms = now[1] * 1000 + math.floor(now[2] / 1000)
		redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
		if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
		redis.call('ZADD', KEYS[1], ms + ARGV[2], ARGV[3])
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1`)
	redisRelease = redis.NewScript(`return redis.call('ZREM', KEYS[1], ARGV[1])`)
)

// startRedis starts two Redis servers: one flushes its log before it answers, the other
// once a second.
func startRedis(ctx context.Context, s *servers, program string) error {
	for _, appendfsync := range []string{"always", "everysec"} {
		port, err := freePort()
		if err != nil {
			return err
		}
		c, err := s.startChild(program, func(dir string) []string {
			return []string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
				"--appendonly", "yes", "--appendfsync", appendfsync,
			}
		})
		if err != nil {
			return err
		}
		client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 512})
		s.add(client.Close)
		if err := c.await(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
			return err
		}
		s.baselines = append(s.baselines, bench.Baseline{Name: "redis", Durability: "appendfsync " + appendfsync, Pairs: redisPairs(client)})
	}
	return nil
}

func redisPairs(client *redis.Client) bench.Pairer {
	return func(ctx context.Context, clients int) (func(context.Context, int) error, func(context.Context) error, error) {
		keys := make([][]string, clients)
		for i := range keys {
			keys[i] = []string{"bench:" + uuid.NewString()}
		}
		return func(ctx context.Context, i int) error {
			holder := uuid.NewString()
			taken, err := redisAcquire.Run(ctx, client, keys[i], 1, leaseTTL/time.Millisecond, holder).Int()
			if err == nil && taken != 1 {
				err = errNotGranted
			}
			if err != nil {
				return err
			}
			removed, err := redisRelease.Run(ctx, client, keys[i], holder).Int()
			if err == nil && removed != 1 {
				err = errNotReturned
			}
			return err
		}, nil, nil
	}
}
