//go:build unix

package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// serverFault is a fault of servers or their routes. do injects it, and ends it after about
// the given time.
type serverFault struct {
	name        string
	least, most time.Duration
	do          func(c *cutCluster, leader, follower int, d time.Duration)
}

var serverFaults = []serverFault{
	{"leader refused", 5, 13, func(c *cutCluster, leader, _ int, d time.Duration) { c.cut(leader, natstest.Refuse, d) }},
	{"leader black-holed", 5, 13, func(c *cutCluster, leader, _ int, d time.Duration) { c.cut(leader, natstest.BlackHole, d) }},
	{"leader reset", 3, 5, func(c *cutCluster, leader, _ int, d time.Duration) { c.reset(leader, d) }},
	{"follower refused", 5, 13, func(c *cutCluster, _, follower int, d time.Duration) { c.cut(follower, natstest.Refuse, d) }},
	{"follower black-holed", 5, 13, func(c *cutCluster, _, follower int, d time.Duration) { c.cut(follower, natstest.BlackHole, d) }},
	{"follower reset", 3, 5, func(c *cutCluster, _, follower int, d time.Duration) { c.reset(follower, d) }},
	{"leader killed", 1, 8, func(c *cutCluster, leader, _ int, d time.Duration) { c.kill(d, leader) }},
	{"follower killed", 1, 8, func(c *cutCluster, _, follower int, d time.Duration) { c.kill(d, follower) }},
	{"all killed", 1, 3, func(c *cutCluster, _, _ int, d time.Duration) { c.kill(d, 0, 1, 2) }},
	{"leader paused", 3, 10, func(c *cutCluster, leader, _ int, d time.Duration) {
		c.Servers[leader].Pause()
		time.Sleep(d)
		c.Servers[leader].Resume()
	}},
	{"stepdowns", 3, 5, func(c *cutCluster, _, _ int, d time.Duration) {
		for range 3 {
			_, _ = c.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+bucket.StreamName, nil, time.Second)
			time.Sleep(d / 3)
		}
	}},
}

// cutCluster is a cluster of servers whose faults a test draws.
type cutCluster struct {
	*natstest.ProcessCluster
	nc *nats.Conn // to any server
	js jetstream.JetStream
}

func (c *cutCluster) cut(n int, how natstest.Cut, d time.Duration) {
	c.Cut(n, how)
	time.Sleep(d)
	c.Heal(n)
}

func (c *cutCluster) reset(n int, d time.Duration) {
	for range 3 {
		c.Reset(n)
		time.Sleep(d / 3)
	}
}

func (c *cutCluster) kill(d time.Duration, servers ...int) {
	for _, n := range servers {
		c.Servers[n].Kill()
	}
	time.Sleep(d)
	for _, n := range servers {
		c.Servers[n].Start()
	}
}

// leader returns the number of the server that leads the bucket's stream.
func (c *cutCluster) leader(t *testing.T) (n int) {
	t.Helper()
	eventually(t, "the stream has a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream, err := c.js.Stream(ctx, bucket.StreamName)
		if err != nil || stream.CachedInfo().Cluster == nil || stream.CachedInfo().Cluster.Leader == "" {
			return false
		}
		n = c.Number(stream.CachedInfo().Cluster.Leader)
		return true
	})
	return n
}
