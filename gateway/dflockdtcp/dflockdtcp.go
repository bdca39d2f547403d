package dflockdtcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

// Config configures a Server.
type Config struct {
	// Sessions is usually a *kvslots.Store.
	Sessions ops.Sessions

	// Lending and Turns are the *gateway.Lending and *gateway.Turns that all transports
	// of the gateway share. Lending.Connections has the limits of connections.
	Lending *ops.Lending
	Turns   *ops.Turns

	// SessionTimes is a gateway.SessionTimes.
	ops.SessionTimes

	// Clients returns the number of all clients without a session, for statistics; nil
	// means Server.Clients.
	Clients func() int

	// TLS makes Serve accept TLS only. nil means plain TCP.
	TLS *tls.Config

	// Tokens are the *gateway.Tokens, one of which each connection must send first. nil
	// or empty Tokens require none.
	Tokens *ops.Tokens

	// Logger receives a line for each request, at level debug, without keys and secrets.
	// nil means that nothing is logged.
	Logger *slog.Logger
}

// Server serves the protocol.
type Server struct {
	service *ops.Service
	cfg     Config
	log     *slog.Logger
	metrics *serverMetrics

	mu       sync.Mutex
	ln       net.Listener // nil before Serve
	open     map[*conn]struct{}
	finished bool // Finish was called
	serving  sync.WaitGroup

	connections, withSession atomic.Int64
}

// New returns a Server, which accepts no connections before Serve is called.
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, log: cfg.Logger, open: map[*conn]struct{}{}}
	s.metrics = newMetrics(s)
	clients := cfg.Clients
	if clients == nil {
		clients = s.Clients
	}
	s.service = &ops.Service{
		Sessions: cfg.Sessions, Lending: cfg.Lending, Turns: cfg.Turns, Events: cfg.Lending.Events(ops.APITCP),
		SessionTimes: cfg.SessionTimes, Clients: clients, Log: cfg.Logger,
	}
	return s
}

// Clients returns the number of connections without a session.
func (s *Server) Clients() int { return int(s.connections.Load() - s.withSession.Load()) }

// Collectors returns the server's metrics, for gateway.Config.
func (s *Server) Collectors() []prometheus.Collector { return s.metrics.collectors }

const (
	// maxAcceptPause bounds the pause after connections could not be accepted.
	maxAcceptPause = time.Second

	// endTime is how long Finish waits for connections whose requests it has given up.
	endTime = 6 * time.Second // the store's time for an operation, and some
)

// Serve serves the connections of ln until Finish closes ln, and then returns nil, or until
// ln fails.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.ln = ln; s.finished {
		ln.Close()
	}
	s.mu.Unlock()
	pause := 5 * time.Millisecond
	for {
		raw, err := ln.Accept()
		switch temporary, ok := errors.AsType[interface {
			error
			Temporary() bool
		}](err); {
		case err == nil:
			pause = 5 * time.Millisecond
			s.accept(raw)
		case s.isFinished():
			return nil
		case ok && temporary.Temporary():
			s.log.Warn("no connection can be accepted; if too many files are open, raise their limit or lower --max-connections", "error", err)
			time.Sleep(pause)
			pause = min(2*pause, maxAcceptPause)
		default:
			return err
		}
	}
}

func (s *Server) isFinished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// accept serves a connection, or closes it without an answer if it is beyond a limit, as
// dflockd does.
func (s *Server) accept(raw net.Conn) {
	limits := &s.cfg.Lending.Connections
	client := limits.ClientAt(raw.RemoteAddr())
	if refusal := limits.Admit(client); refusal != nil {
		s.log.Debug("connection refused", "limit", refusal.Name)
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // no states of TCP that wait for the client
		}
		raw.Close()
		return
	}
	c := newConn(s, raw)
	left := func() {
		s.connections.Add(-1)
		limits.Leave(client)
	}
	s.connections.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		raw.Close()
		left()
		return
	}
	s.open[c] = struct{}{}
	s.serving.Go(func() {
		defer left()
		c.serve()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	})
}

// Finish closes the listener, answers error_draining on every connection, closes it, and
// ends its session. When ctx ends first, it closes the connections without an answer.
func (s *Server) Finish(ctx context.Context) {
	s.mu.Lock()
	s.finished = true
	if s.ln != nil {
		s.ln.Close()
	}
	for c := range s.open {
		c.input.stop()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.open {
		c.raw.Close()
	}
	s.mu.Unlock()
	select {
	case <-done:
	case <-time.After(endTime):
		s.log.Warn("sessions of TCP connections could not be ended; they end by themselves")
	}
}
