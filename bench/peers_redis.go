//go:build peers

package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
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
func startRedis(ctx context.Context, e *Environment, program string) (baselines []baseline, err error) {
	for _, appendfsync := range []string{"always", "everysec"} {
		port, err := freePort()
		if err != nil {
			return baselines, err
		}
		c, err := e.startChild(program, func(dir string) []string {
			return []string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
				"--appendonly", "yes", "--appendfsync", appendfsync,
			}
		})
		if err != nil {
			return baselines, err
		}
		client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 512})
		e.ofRun.add(client.Close)
		if err := c.await(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
			return baselines, err
		}
		baselines = append(baselines, baseline{name: "redis", durability: "appendfsync " + appendfsync, pairs: redisPairs(client)})
	}
	return baselines, nil
}

func redisPairs(client *redis.Client) pairer {
	return func(ctx context.Context, clients int) (action, cleanup, error) {
		keys := make([][]string, clients)
		for i := range keys {
			keys[i] = []string{"bench:" + uuid.NewString()}
		}
		return func(ctx context.Context, i int) error {
			holder := uuid.NewString()
			taken, err := redisAcquire.Run(ctx, client, keys[i], 1, longTTL/time.Millisecond, holder).Int()
			if err != nil || taken != 1 {
				return errors.Join(err, errIf(taken != 1, errTimeout))
			}
			removed, err := redisRelease.Run(ctx, client, keys[i], holder).Int()
			return errors.Join(err, errIf(removed != 1, errNotReturned))
		}, nil, nil
	}
}

func errIf(wrong bool, err error) error {
	if wrong {
		return err
	}
	return nil
}
