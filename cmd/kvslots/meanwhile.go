package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway"
)

// natsRetry is how often a NATS that is not there yet is looked for.
const natsRetry = 250 * time.Millisecond

// awaitBackend is openBackend, but it waits for a NATS that is not there yet.
// Meanwhile the listener is served: /health says that the process runs, /ready
// that it is not ready.
func awaitBackend(ctx context.Context, ln net.Listener, s settings, log zerolog.Logger) (*backend, *meanwhile, error) {
	var m *meanwhile
	for {
		b, err := openBackend(ctx, s, log)
		if err == nil || s.natsURL == "" || !isAbsent(err) {
			return b, m, err
		}
		if m == nil {
			log.Warn().Str("http", ln.Addr().String()).Err(err).Msg("waiting for NATS")
			m = serveMeanwhile(ln)
		}
		select {
		case <-ctx.Done():
			return nil, m, context.Cause(ctx)
		case <-time.After(natsRetry):
		}
	}
}

// isAbsent reports whether no NATS answered, as opposed to one that refused.
func isAbsent(err error) bool {
	var failed *net.OpError // a DNSError, too, comes in one
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &failed)
}

// meanwhile serves a listener until the gateway is there to do so.
type meanwhile struct {
	server *http.Server
	turn   *turn
	served chan error
}

func serveMeanwhile(ln net.Listener) *meanwhile {
	m := &meanwhile{
		server: &http.Server{Handler: gateway.Waiting("NATS is not there yet"), ReadHeaderTimeout: 10 * time.Second},
		turn:   &turn{TCPListener: ln.(*net.TCPListener)},
		served: make(chan error, 1),
	}
	go func() { m.served <- m.server.Serve(m.turn) }()
	return m
}

// stop answers what is under way, and leaves the listener to the next server. It
// may be called more than once, and for nil.
func (m *meanwhile) stop() error {
	if m == nil || m.turn.over() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := m.server.Shutdown(ctx)
	if served := <-m.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, m.turn.TCPListener.SetDeadline(time.Time{}))
}

// turn is a listener whose Close ends Accept, but not the listener behind it.
type turn struct {
	*net.TCPListener
	mu     sync.Mutex
	closed bool
}

func (t *turn) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Close makes Accept return, by a deadline in the past.
func (t *turn) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.TCPListener.SetDeadline(time.Unix(1, 0))
}

// Accept returns net.ErrClosed after Close.
func (t *turn) Accept() (net.Conn, error) {
	conn, err := t.TCPListener.Accept()
	if err != nil && t.over() {
		return nil, net.ErrClosed
	}
	return conn, err
}
