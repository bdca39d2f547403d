// Package natsembed runs a nats-server with JetStream inside the process: it
// configures, starts and stops it, and connects to it without a socket.
//
// The server stores under one data directory, which it locks; it listens
// nowhere unless told to. When Start returns without an error, JetStream has
// recovered everything that the directory holds and takes requests.
package natsembed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// readyTimeout bounds what is left to do once nats-server's own start, with
// its recovery of any length, has come to its end.
const readyTimeout = 10 * time.Second

// Server is a running nats-server. Its methods may be called concurrently.
type Server struct {
	nats *server.Server
	dir  *dataDir
	door *door

	mu       sync.Mutex
	services []*nats.Conn // in the clients' account, and no clients

	closeOnce sync.Once
	closeErr  error
}

// Start runs a server as cfg says and returns when JetStream is ready, or
// with the reason why it is not; nothing is left running then. ctx ends the
// start, not the server. A recovery that has begun is not interrupted: a store
// that is being read must not be given to anybody else.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := errors.Join(cfg.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	dir, err := openDataDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	srv, err := start(ctx, cfg, dir)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return srv, nil
}

func start(ctx context.Context, cfg Config, dir *dataDir) (*Server, error) {
	srv, log, err := prepare(cfg, dir)
	if err != nil {
		return nil, fmt.Errorf("nats-server: %w", err)
	}
	srv.nats.Start()
	if err := srv.ready(ctx, log); err != nil {
		srv.stop()
		return nil, err
	}
	return srv, nil
}

func prepare(cfg Config, dir *dataDir) (*Server, *natsLog, error) {
	door, err := newDoor(cfg)
	if err != nil {
		return nil, nil, err
	}
	options, err := cfg.options(dir.path, door)
	if err != nil {
		return nil, nil, err
	}
	nats, err := server.NewServer(options)
	if err != nil {
		return nil, nil, err
	}
	if err := door.findAccounts(nats); err != nil {
		return nil, nil, err
	}
	log := &natsLog{log: cfg.Logger}
	nats.SetLoggerV2(log, false, false, false)
	return &Server{nats: nats, dir: dir, door: door}, log, nil
}

// ready is nil when the server can be used.
func (s *Server) ready(ctx context.Context, log *natsLog) error {
	if err := log.err(); err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	if !s.nats.ReadyForConnections(readyTimeout) || !s.nats.JetStreamEnabled() {
		return errors.New("nats-server: JetStream did not become ready")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.checkRecovery(ctx)
}

// Connect opens a connection within the process, into the account that owns
// the bucket; it reconnects for ever. The caller closes it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return s.connect(s.door.insider, opts)
}

// ConnectService opens a connection within the process, into the account of the
// listener's clients, for a service that answers them; it may subscribe to and
// publish anything there. The caller closes it.
func (s *Server) ConnectService(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := s.connect(s.door.service, opts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services = append(slices.DeleteFunc(s.services, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

func (s *Server) connect(pair nkeys.KeyPair, opts []nats.Option) (*nats.Conn, error) {
	key, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	ours := []nats.Option{
		nats.Name(serverName),
		nats.InProcessServer(s.nats),
		nats.Nkey(key, pair.Sign),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
	}
	return nats.Connect("", append(ours, opts...)...)
}

// NumClients is how many clients of the listener are connected.
func (s *Server) NumClients() int {
	clients := s.door.clients.NumLocalConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.services {
		if nc.IsConnected() {
			clients--
		}
	}
	return max(0, clients)
}

// ClientURL is where the listener can be reached; empty without one.
func (s *Server) ClientURL() string {
	if s.nats.Addr() == nil {
		return ""
	}
	return s.nats.ClientURL()
}

// Close stops the server, waits until its storage is written, and unlocks the
// data directory. Connections to it should be closed before. A second call
// does nothing and returns what the first did.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.closeErr = s.dir.close()
	})
	return s.closeErr
}

func (s *Server) stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
