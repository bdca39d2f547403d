package natstest

import (
	"fmt"
	"net"
	"net/url"
	"slices"
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
	links   *Links // nil if the servers are connected directly
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
	c.start(func(n int, o *server.Options) {
		o.ServerName = fmt.Sprintf("n%d", n)
		o.Cluster = server.ClusterOpts{Name: "kvslotstest", Host: "127.0.0.1", Port: ports[n]}
		o.Routes = routes
	}, change)
	return c
}

// StartLinkedCluster is StartCluster for tests that cut servers off from each other. Its
// routes go through proxies: see CutRoutes.
func StartLinkedCluster(t testing.TB, change ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, links: NewLinks(t, clusterSize)}
	c.start(c.links.Configure, change)
	return c
}

func (c *Cluster) start(member func(n int, o *server.Options), change []func(*server.Options)) {
	c.t.Helper()
	for n := range clusterSize {
		join := func(o *server.Options) { member(n, o) }
		c.Servers = append(c.Servers, Start(c.t, "", append([]func(*server.Options){join}, change...)...))
	}
	c.waitReady()
}

// CutRoutes cuts a server of a linked cluster off from the others, while its clients stay
// connected. Until it notices, after 4 to 10 s, a leader that is cut off still considers
// itself the leader, so that StreamLeader may return it; take the leader before the cut.
func (c *Cluster) CutRoutes(s *Server, how Cut) {
	c.t.Helper()
	c.linked().Cut(c.number(s), how)
}

// HealRoutes ends CutRoutes. Servers dial routes that are broken about once a second.
func (c *Cluster) HealRoutes(s *Server) {
	c.t.Helper()
	c.linked().Heal(c.number(s))
}

// ResetRoutes resets the routes of a server of a linked cluster, once. The servers may
// connect again at once.
func (c *Cluster) ResetRoutes(s *Server) {
	c.t.Helper()
	c.linked().Reset(c.number(s))
}

func (c *Cluster) linked() *Links {
	c.t.Helper()
	if c.links == nil {
		c.t.Fatal("the test needs StartLinkedCluster")
	}
	return c.links
}

func (c *Cluster) number(s *Server) int {
	c.t.Helper()
	n := slices.Index(c.Servers, s)
	if n < 0 {
		c.t.Fatal("the server is not in the cluster")
	}
	return n
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
