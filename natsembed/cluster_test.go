package natsembed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

var clusterSecret = bytes.Repeat([]byte("hunter2-"), 4)

// nodes returns three nodes on loopback, on ports that were free.
func nodes(t *testing.T) (all []Node) {
	t.Helper()
	for range 3 {
		n, err := ParseNode(fmt.Sprintf("127.0.0.1:%d", kvslotstest.Port(t)))
		kvslotstest.Must(t, err)
		all = append(all, n)
	}
	return all
}

func nodeConfig(t *testing.T, all []Node, self int) Config {
	t.Helper()
	return Config{
		DataDir: t.TempDir(), Local: true, Logger: logtest.Logger(),
		Cluster: &Cluster{Nodes: all, Self: all[self].Name, Secret: clusterSecret, Format: 1},
	}
}

func startNode(t *testing.T, cfg Config) *Server {
	t.Helper()
	srv, err := Start(t.Context(), cfg)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

func replicated(t *testing.T, srv *Server) jetstream.Stream {
	t.Helper()
	js, err := srv.jetStream()
	kvslotstest.Must(t, err)
	t.Cleanup(js.Conn().Close)
	var stream jetstream.Stream
	kvslotstest.Eventually(t, "a stream with three copies", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), healthEvery)
		defer cancel()
		stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "KV_kvslots", Subjects: []string{"$KV.kvslots.>"}, Replicas: 3})
		return err == nil
	})
	return stream
}

// Three servers with one line each are a cluster, in any order of their starts. It goes on without one of them, and fills one
// that comes back with an empty directory.
func TestCluster(t *testing.T) {
	t.Parallel() // waits for elections
	all := nodes(t)
	configs := []Config{nodeConfig(t, all, 0), nodeConfig(t, all, 1), nodeConfig(t, all, 2)}
	servers := []*Server{nil, startNode(t, configs[1]), startNode(t, configs[2])}
	kvslotstest.Eventually(t, "two nodes are connected", func() bool { return len(servers[1].connected()) == 1 })
	if leader := servers[1].nats().JetStreamIsLeader() || servers[2].nats().JetStreamIsLeader(); leader {
		t.Error("two of three have formed a cluster")
	}
	servers[0] = startNode(t, configs[0])
	replicated(t, servers[0])
	operator, err := Dial(configs[1].DataDir)
	kvslotstest.Must(t, err)
	defer operator.Close()
	kvslotstest.Eventually(t, "all copies are current", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), healthEvery)
		defer cancel()
		nodes, err := ClusterStatus(ctx, operator, "KV_kvslots")
		return err == nil && len(nodes) == 3 && !slices.ContainsFunc(nodes, func(n NodeStatus) bool { return !n.Running || n.Copy == nil || !n.Copy.Current })
	})
	for _, srv := range servers {
		if srv.nats().JetStreamIsStreamLeader(bucketAccount, "KV_kvslots") {
			kvslotstest.Must(t, NodeStepDown(t.Context(), operator, srv.cfg.Cluster.Self))
			kvslotstest.Eventually(t, "another leads", func() bool { return !srv.nats().JetStreamIsStreamLeader(bucketAccount, "KV_kvslots") })
			break
		}
	}
	if err := NodeRemove(t.Context(), operator, all[0].Name, all[2].Name); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("a node that runs: %v", err)
	}
	kvslotstest.Must(t, servers[2].Close())
	js, err := servers[0].jetStream()
	kvslotstest.Must(t, err)
	defer js.Conn().Close()
	kvslotstest.Eventually(t, "two nodes go on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), healthEvery)
		defer cancel()
		_, err := js.Publish(ctx, "$KV.kvslots.x", []byte("kept"))
		return err == nil
	})
	configs[2].DataDir = t.TempDir()
	again := startNode(t, configs[2])
	kvslotstest.Eventually(t, "the third copy is filled", func() bool {
		return again.nats().JetStreamIsStreamCurrent(bucketAccount, "KV_kvslots")
	})
}

// A node with another secret, another list, another format, or the name of a running one does not join.
func TestForeignNodes(t *testing.T) {
	t.Parallel() // waits for elections
	all := nodes(t)
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // in the log
	}{
		"secret": {func(c *Config) { c.Cluster.Secret = bytes.Repeat([]byte("another-"), 4) }, "certificate"},
		"list": {func(c *Config) {
			other, _ := ParseNode("127.0.0.2:1234")
			c.Cluster.Nodes = append(slices.Clone(c.Cluster.Nodes[:2]), other)
		}, "give all the same list"},
		"format": {func(c *Config) { c.Cluster.Format = 2 }, "has the format"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			ours := nodeConfig(t, all, 0)
			ours.Logger = log.Logger()
			srv := startNode(t, ours)
			other := nodeConfig(t, all, 1)
			c.change(&other)
			foreign := startNode(t, other)
			kvslotstest.Eventually(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), c.want) })
			if joined := append(srv.connected(), foreign.connected()...); len(joined) > 0 {
				t.Errorf("joined: %q", joined)
			}
		})
	}
}

// A directory belongs to a single server, or to one node of one cluster.
func TestNodeDirectory(t *testing.T) {
	t.Parallel() // waits for elections
	all := nodes(t)
	single := Config{DataDir: t.TempDir(), Logger: logtest.Logger()}
	srv, err := Start(t.Context(), single)
	kvslotstest.Must(t, err)
	js, err := srv.jetStream()
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, kvslotstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_kvslots"})))
	js.Conn().Close()
	kvslotstest.Must(t, srv.Close())
	node := nodeConfig(t, all, 0)
	kvslotstest.Must(t, startNode(t, node).Close())
	refuse := func(cfg Config, want string) {
		t.Helper()
		srv, err := Start(t.Context(), cfg)
		if err == nil {
			_ = srv.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	moved := node
	moved.DataDir = single.DataDir
	refuse(moved, "is that of a single gateway")
	single.DataDir = node.DataDir
	refuse(single, "give --cluster")
	other := nodeConfig(t, all, 0)
	other.DataDir, other.Cluster.Secret = node.DataDir, bytes.Repeat([]byte("another-"), 4)
	refuse(other, "another cluster")
	renamed := nodeConfig(t, all, 1)
	renamed.DataDir = node.DataDir
	refuse(renamed, "is that of node "+all[0].Name)
}

// Two machines under one name: the second one is refused by each node, while the first is connected. nats-server would let
// it in, and count its votes.
func TestTwoMachinesOfOneName(t *testing.T) {
	t.Parallel() // waits for elections
	all := nodes(t)
	for i, name := range []string{"a", "b", "c"} {
		all[i].Name = name
	}
	var log logtest.Log
	b := nodeConfig(t, all, 1)
	b.Logger = log.Logger()
	srv := startNode(t, b)
	first := startNode(t, nodeConfig(t, all, 0))
	kvslotstest.Eventually(t, "a and b are connected", func() bool { return slices.Contains(srv.connected(), "a") })
	elsewhere := slices.Clone(all)
	elsewhere[0].Port = kvslotstest.Port(t)
	second := startNode(t, nodeConfig(t, elsewhere, 0))
	kvslotstest.Eventually(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), "two machines run as node a") })
	if joined := second.connected(); len(joined) > 0 {
		t.Errorf("the second has joined %q", joined)
	}
	kvslotstest.Must(t, first.Close())
	kvslotstest.Eventually(t, "the second may take the place of the first", func() bool { return slices.Contains(second.connected(), "b") })
}

// After a power cut a copy may end before its snapshot: what was superseded is gone, and what superseded it is in the log only.
// nats-server then never finds a leader; the repair at the start makes it go on, with the last value.
func TestCopiesThatEndBeforeTheirSnapshot(t *testing.T) {
	t.Parallel() // waits for elections
	all := nodes(t)
	for i, name := range []string{"a", "b", "c"} {
		all[i].Name = name
	}
	run := func(dirs []string) (servers []*Server) {
		for i := range all {
			cfg := nodeConfig(t, all, i)
			cfg.DataDir = dirs[i]
			servers = append(servers, startNode(t, cfg))
		}
		return servers
	}
	write := func(srv *Server, values int) {
		replicated(t, srv)
		js, err := srv.jetStream()
		kvslotstest.Must(t, err)
		defer js.Conn().Close()
		for n := range values {
			kvslotstest.Eventually(t, "a write", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), healthEvery)
				defer cancel()
				_, err := js.Publish(ctx, "$KV.kvslots.hot", fmt.Append(nil, n))
				return err == nil
			})
		}
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	servers := run(dirs)
	write(servers[0], 20)
	for _, srv := range servers { // each takes a snapshot
		kvslotstest.Must(t, srv.Close())
	}
	servers = run(dirs)
	write(servers[0], 5)
	cut := func(dir string) (to string) { // what the disk has after a cut
		kvslotstest.Eventually(t, "a copy while no file is removed", func() bool {
			to = t.TempDir()
			return os.CopyFS(filepath.Join(to, "jetstream"), os.DirFS(filepath.Join(dir, "jetstream"))) == nil
		})
		of, err := os.ReadFile(filepath.Join(dir, nodeFile))
		kvslotstest.Must(t, err)
		kvslotstest.Must(t, os.WriteFile(filepath.Join(to, nodeFile), of, 0o600))
		blocks, err := filepath.Glob(filepath.Join(to, "jetstream", bucketAccount, "streams", "*", "msgs", "*"))
		kvslotstest.Must(t, err)
		for _, name := range blocks {
			kvslotstest.Must(t, os.Remove(name))
		}
		return to
	}
	after := []string{cut(dirs[0]), cut(dirs[1]), cut(dirs[2])}
	for _, srv := range servers {
		kvslotstest.Must(t, srv.Close())
	}
	servers = run(after)
	stream := replicated(t, servers[0])
	if last, err := stream.GetLastMsgForSubject(t.Context(), "$KV.kvslots.hot"); err != nil || string(last.Data) != "4" {
		t.Errorf("%+v, %v", last, err)
	}
}
