package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/kvslots/kvslots/bench"
)

// startEtcd starts a single etcd server, which flushes its log in groups before it
// answers.
func startEtcd(ctx context.Context, s *servers, program string) error {
	ports := [2]int{} // for clients, and for other servers
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports[i] = port
	}
	clients, others := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c, err := s.startChild(program, func(dir string) []string {
		return []string{
			"--data-dir", dir, "--listen-client-urls", clients, "--advertise-client-urls", clients,
			"--listen-peer-urls", others, "--initial-advertise-peer-urls", others, "--initial-cluster", "default=" + others,
		}
	})
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{clients}, DialTimeout: startTimeout, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	s.add(client.Close)
	err = c.await(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := client.Get(ctx, "ready")
		return err
	})
	if err != nil {
		return err
	}
	s.baselines = append(s.baselines, bench.Baseline{Name: "etcd mutex", Durability: "fsync", Pairs: etcdPairs(client)})
	return nil
}

func etcdPairs(client *clientv3.Client) bench.Pairer {
	return func(ctx context.Context, clients int) (func(context.Context, int) error, func(context.Context) error, error) {
		sessions := make([]*concurrency.Session, clients)
		mutexes := make([]*concurrency.Mutex, clients)
		prefix := "bench/" + uuid.NewString()
		closeAll := func(context.Context) error {
			return forEach(clients, func(i int) error {
				if sessions[i] == nil {
					return nil
				}
				return sessions[i].Close()
			})
		}
		err := forEach(clients, func(i int) (err error) {
			if sessions[i], err = concurrency.NewSession(client, concurrency.WithTTL(60)); err == nil {
				mutexes[i] = concurrency.NewMutex(sessions[i], fmt.Sprintf("%s/%d", prefix, i))
			}
			return err
		})
		return func(ctx context.Context, i int) error {
			if err := mutexes[i].Lock(ctx); err != nil {
				return err
			}
			return mutexes[i].Unlock(ctx)
		}, closeAll, err
	}
}

// forEach calls do for 0 … n−1, at most 64 calls at once, and returns the first error.
func forEach(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
