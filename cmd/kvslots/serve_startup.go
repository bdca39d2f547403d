package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway"
)

// natsRetry is the pause between attempts to connect to an external NATS server.
const natsRetry = 250 * time.Millisecond

// awaitBackend opens the backend. While an external NATS does not answer, it
// serves the listener: /health reports that the process runs, /ready that it is
// not ready. The caller stops that server before it serves the listener itself.
func awaitBackend(ctx context.Context, ln net.Listener, allowed *access, s settings, manager *serviceManager, log zerolog.Logger) (*backend, *standby, error) {
	var server *standby
	for {
		b, err := openBackend(ctx, s, log)
		if err == nil || s.nats.url == "" || !isAbsent(err) {
			return b, server, err
		}
		if server == nil {
			log.Warn().Str("http", ln.Addr().String()).Err(err).Msg("waiting for NATS")
			manager.notify("STATUS=waiting for NATS")
			server = startStandby(ln, allowed.tls())
		}
		select {
		case <-ctx.Done():
			return nil, server, context.Cause(ctx)
		case <-time.After(natsRetry):
		}
	}
}

// isAbsent reports whether no NATS server has answered. A server that refuses the
// connection of a client is not absent.
func isAbsent(err error) bool {
	var failed *net.OpError // a DNSError is wrapped in one
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &failed)
}

// standby serves HTTP on a listener until the gateway is ready.
type standby struct {
	server *http.Server
	ln     *lentListener
	served chan error
}

func startStandby(ln net.Listener, config *tls.Config) *standby {
	s := &standby{
		server: &http.Server{Handler: gateway.Waiting("NATS does not answer yet"), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second},
		ln:     &lentListener{TCPListener: ln.(*net.TCPListener)},
		served: make(chan error, 1),
	}
	served := net.Listener(s.ln)
	if config != nil {
		served = tls.NewListener(s.ln, config)
	}
	go func() { s.served <- s.server.Serve(served) }()
	return s
}

// stop waits for the requests in progress, and leaves the listener open. It may be
// called more than once, and on nil.
func (s *standby) stop() error {
	if s == nil || s.ln.closed.Load() {
		return nil
	}
	err := closing(s.server.Shutdown)
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.ln.TCPListener.SetDeadline(time.Time{}))
}

// lentListener is a listener whose Close ends Accept but leaves the TCP listener open
// for the next server.
type lentListener struct {
	*net.TCPListener
	closed atomic.Bool
}

// Close sets a deadline in the past, which makes Accept return.
func (l *lentListener) Close() error {
	l.closed.Store(true)
	return l.TCPListener.SetDeadline(time.Unix(1, 0))
}

// Accept returns net.ErrClosed after Close.
func (l *lentListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.closed.Load() {
		return nil, net.ErrClosed
	}
	return conn, err
}
