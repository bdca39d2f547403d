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

	// clusterPatience is for servers that start and elect on a busy machine.
	clusterPatience = 60 * time.Second
)

// Cluster is three nats-servers with JetStream, enough for streams with three
// replicas, that run for as long as the test.
type Cluster struct {
	Servers []*Server
	t       testing.TB
}

// StartCluster starts a cluster and waits until JetStream has a leader and
// knows all its members. change may change each server's options.
func StartCluster(t testing.TB, change ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	held, routes := holdPorts(t)
	for n := range clusterSize {
		member := func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", n)
			o.Cluster = server.ClusterOpts{Name: "kvslotstest", Host: "127.0.0.1", Port: held[n].Addr().(*net.TCPAddr).Port}
			o.Routes = routes
		}
		held[n].Close()
		c.Servers = append(c.Servers, Start(t, "", append([]func(*server.Options){member}, change...)...))
	}
	c.waitReady()
	return c
}

// holdPorts takes a port for each server's routes. JetStream wants the routes of
// all of them in advance, so the kernel is asked for ports first, and each is
// held until its server takes it over.
func holdPorts(t testing.TB) (held []net.Listener, routes []*url.URL) {
	t.Helper()
	for range clusterSize {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		held = append(held, ln)
		routes = append(routes, &url.URL{Scheme: "nats", Host: ln.Addr().String()})
	}
	return held, routes
}

func (c *Cluster) waitReady() {
	c.t.Helper()
	deadline := time.Now().Add(clusterPatience)
	for {
		if leader := c.metaLeader(); leader != nil && len(leader.JetStreamClusterPeers()) == len(c.Servers) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the cluster did not get ready")
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

// StreamLeader is the server that leads a stream of the global account; it
// waits until there is one.
func (c *Cluster) StreamLeader(stream string) *Server {
	c.t.Helper()
	deadline := time.Now().Add(clusterPatience)
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

// URL names all servers, for a client that survives any of them.
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

// Connect connects over TCP to any of the servers; the connection ends with the
// test.
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
