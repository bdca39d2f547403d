package server

import (
	"context"
	"fmt"
	"net"

	"github.com/kvslots/kvslots/gateway/dflockdtcp"
)

// dflockdListener is the listener of --tcp-addr, and the server of its connections. A nil
// *dflockdListener does nothing.
type dflockdListener struct {
	*dflockdtcp.Server // nil before there is a store; the kernel takes connections meanwhile
	ln                 net.Listener
	served             chan error
}

func listenDflockd(addr string) (*dflockdListener, error) {
	if addr == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("TCP: %w", err)
	}
	return &dflockdListener{ln: ln, served: make(chan error, 1)}, nil
}

func (s *server) newDflockd() {
	if s.tcp == nil {
		return
	}
	c := s.settings.TCP()
	c.Sessions, c.Lending, c.Turns = s.store, s.lending, s.turns
	c.Clients = s.clients
	c.Logger = s.log.With("component", "tcp")
	s.tcp.Server = dflockdtcp.New(c)
}

func (s *server) clients() (n int) {
	if s.nats.server != nil {
		n = s.nats.server.Clients().NumClients()
	}
	if s.tcp != nil {
		n += s.tcp.Clients()
	}
	return n
}

func (d *dflockdListener) start() {
	if d == nil {
		return
	}
	go func() {
		if err := d.Serve(d.ln); err != nil {
			d.served <- err
		}
		close(d.served)
	}()
}

// Finish is that of a gateway.Finisher. It waits until the listener has ended, too.
func (d *dflockdListener) Finish(ctx context.Context) {
	d.Server.Finish(ctx)
	for range d.served {
	}
}

func (d *dflockdListener) failed() <-chan error {
	if d == nil {
		return nil
	}
	return d.served
}

// close closes a listener that may never have been served.
func (d *dflockdListener) close() {
	if d != nil {
		d.ln.Close()
	}
}
