package natstest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Cut is how CutRoutes separates a server from the others.
type Cut int

const (
	// Refuse resets the routes, and refuses new ones, as if no server listened. Each side
	// knows at once that the other side is gone.
	Refuse Cut = iota

	// BlackHole keeps the routes, but forwards nothing, not even the end of a connection.
	// When the cut heals, what was sent meanwhile arrives, as after TCP's retransmissions.
	BlackHole
)

// Links are the routes between the servers of one cluster: a proxy for each server and each
// other server that it dials. Clients' connections are not affected. The proxies stop at the
// end of the test.
type Links struct {
	t       testing.TB
	names   []string
	ports   []int      // where the servers themselves listen for routes
	proxies [][]*proxy // proxies[a][b] carries what a dials to b; nil if a is b
}

// NewLinks starts the proxies for a cluster of the given size.
func NewLinks(t testing.TB, size int) *Links {
	t.Helper()
	l := &Links{t: t}
	for n := range size {
		l.ports = append(l.ports, Port(t))
		l.names = append(l.names, fmt.Sprintf("n%d", n))
	}
	for from := range size {
		l.proxies = append(l.proxies, make([]*proxy, size))
		for to := range size {
			if from != to {
				l.proxies[from][to] = startProxy(t, Port(t), address(l.ports[to]))
			}
		}
	}
	return l
}

// Configure makes the options those of server n of the cluster, which reaches each other
// server by a proxy.
func (l *Links) Configure(n int, o *server.Options) {
	o.ServerName = l.names[n]
	o.Cluster = server.ClusterOpts{
		Name: "kvslotstest", Host: "127.0.0.1", Port: l.ports[n],
		// Servers tell each other the addresses of third ones. Nothing listens here, so
		// that no route goes past the proxies.
		Advertise: address(Port(l.t)),
	}
	for _, p := range l.proxies[n] {
		if p != nil {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: p.addr})
		}
	}
}

// Cut cuts server n off from all others. A server that is cut off already is only cut in the
// other way.
func (l *Links) Cut(n int, how Cut) {
	l.t.Helper()
	l.each(n, func(p *proxy) error { return p.cut(how) })
}

// Heal ends Cut. Servers dial routes that are broken about once a second.
func (l *Links) Heal(n int) {
	l.t.Helper()
	l.each(n, (*proxy).heal)
}

// Reset resets the routes of server n, once. The servers may connect again at once.
func (l *Links) Reset(n int) {
	l.t.Helper()
	l.each(n, func(p *proxy) error { p.reset(); return nil })
}

// each calls do with the links of server n, in both directions.
func (l *Links) each(n int, do func(*proxy) error) {
	l.t.Helper()
	var errs []error
	for other := range l.proxies {
		if other != n {
			errs = append(errs, do(l.proxies[n][other]), do(l.proxies[other][n]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		l.t.Fatal(err)
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }
