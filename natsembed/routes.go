package natsembed

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// routes are a node's connections to the others. Each side of a route checks the other's certificate before it answers.
type routes struct {
	cluster *Cluster
	own     claims
	peers   func() []string // the names of the nodes that are connected

	mu   sync.Mutex
	runs map[string]string // the data directory of each node that was let in, by its name
}

func newRoutes(c *Cluster, run string, peers func() []string) *routes {
	return &routes{cluster: c, own: c.claims(run), peers: peers, runs: map[string]string{}}
}

// apply adds the routes to nats-server's options. The list has this node itself: only so the first start needs all nodes, and
// two that have lost their data cannot form an empty cluster.
func (r *routes) apply(options *server.Options) error {
	own, trusted, name, err := r.cluster.certificates(r.own.run)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	self := r.cluster.self()
	options.ServerName = self.Name
	options.Cluster = server.ClusterOpts{
		Name: "kvslots-" + r.cluster.id(), Host: listenHost(self.Host), Port: self.Port,
		NoAdvertise: true, PingInterval: time.Second, MaxPingsOut: 2,
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
		TLSTimeout:  5, // seconds
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: name,
			RootCAs: trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
			GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil },
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
			VerifyConnection:     r.verify,
		},
	}
	options.CustomRouterAuthentication = r
	for _, n := range r.cluster.Nodes {
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: n.Addr()})
	}
	return nil
}

// listenHost returns where a node listens: on its loopback address, or on all, since its name may stand for another address of it.
func listenHost(host string) string {
	if isLoopback(host) {
		return host
	}
	return net.IPv6unspecified.String()
}

// Check implements server.Authentication, for routes from others.
func (r *routes) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	return state != nil && len(state.VerifiedChains) > 0
}

// verify compares what another node says in its certificate. nats-server would let in two machines under one name, and count
// the votes of both.
func (r *routes) verify(state tls.ConnectionState) error {
	if r.cluster.CA != "" || len(state.PeerCertificates) == 0 {
		return nil
	}
	other := claimsOf(state.PeerCertificates[0])
	if err := r.own.check(other); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run, known := r.runs[other.name]; known && run != other.run {
		if slices.Contains(r.peers(), other.name) {
			return fmt.Errorf("two machines run as node %s: stop one of them, or give each its own --cluster-self", other.name)
		}
	}
	r.runs[other.name] = other.run
	return nil
}

// startRoutes lets nats-server connect with the other nodes: without a listener for clients it would wait for that.
func (s *Server) startRoutes(nats *server.Server) {
	if s.routes == nil || s.cfg.Addr != "" {
		return
	}
	listening := make(chan struct{})
	close(listening)
	nats.StartRouting(listening)
}

// connected returns the names of the other nodes that this one is connected with.
func (s *Server) connected() (names []string) {
	if s.now.Load() == nil {
		return nil
	}
	routes, err := s.nats().Routez(nil)
	if err != nil {
		return nil
	}
	for _, r := range routes.Routes {
		if !slices.Contains(names, r.RemoteName) {
			names = append(names, r.RemoteName)
		}
	}
	return names
}

// mendCopy repairs this node's copy after a power cut: see flush.Dir.MendReplicated.
func (s *Server) mendCopy() error {
	if s.routes == nil {
		return nil
	}
	return s.dir.MendReplicated()
}
