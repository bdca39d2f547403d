package kvslotstest

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	clusterSize = 3

	// startTimeout bounds the start of a server, and of a cluster, and each election of a
	// leader. It only ends a test that fails.
	startTimeout = 5 * time.Minute
)

// Cluster is a cluster of three nats-servers with JetStream, enough for streams with
// three replicas. It stops at the end of the test.
type Cluster struct {
	Servers []*Server
	t       testing.TB
}

// StartCluster starts a cluster and waits until JetStream has a leader that knows all
// members. The change functions may modify each server's options.
func StartCluster(t testing.TB, change ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	// JetStream needs the routes of all servers in advance.
	var routes []*url.URL
	var ports [clusterSize]int
	for n := range ports {
		ports[n] = Port(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[n])})
	}
	for n, port := range ports {
		member := func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", n)
			o.Cluster = server.ClusterOpts{Name: "kvslotstest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}
		c.Servers = append(c.Servers, Start(t, "", append([]func(*server.Options){member}, change...)...))
	}
	c.waitReady()
	return c
}

func (c *Cluster) waitReady() {
	c.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		if leader := c.metaLeader(); leader != nil && len(leader.JetStreamClusterPeers()) == len(c.Servers) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the cluster did not become ready")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *Cluster) metaLeader() *Server {
	for _, s := range c.Servers {
		if s.JetStreamIsLeader() {
			return s
		}
	}
	return nil
}

// StreamLeader returns the server that leads a stream of the global account. It waits
// until the stream has a leader.
func (c *Cluster) StreamLeader(stream string) *Server {
	c.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		for _, s := range c.Servers {
			if s.Running() && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				return s
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("stream %s has no leader", stream)
	return nil
}

// URL returns the URLs of all servers, separated by commas.
func (c *Cluster) URL() string {
	var urls string
	for n, s := range c.Servers {
		if n > 0 {
			urls += ","
		}
		port := s.Addr().(*net.TCPAddr).Port
		urls += "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return urls
}

// Connect connects to one of the servers over TCP. The connection is closed at the end
// of the test.
func (c *Cluster) Connect(opts ...nats.Option) *nats.Conn {
	c.t.Helper()
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, opts...)
	nc, err := nats.Connect(c.URL(), opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}
