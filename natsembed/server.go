package natsembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
	"github.com/kvslots/kvslots/natsembed/listener"
)

// readyTimeout bounds the wait for readiness after nats-server's own start, which
// includes recovery and takes as long as it needs.
const readyTimeout = 10 * time.Second

// closeTimeout bounds the stop of a failed server, whose disk may not respond.
const closeTimeout = 5 * time.Second

// noteTimeout bounds the wait for noteFailure, which goes on after it.
const noteTimeout = 100 * time.Millisecond

// Server is a running nats-server. Its methods are safe for concurrent use.
type Server struct {
	cfg     Config
	dir     *dataDir
	keys    *keys
	now     atomic.Pointer[running]
	lack    atomic.Pointer[error] // see Room
	nodes   atomic.Pointer[error] // see Majority
	formed  atomic.Bool           // whether the cluster has had a leader
	behind  atomic.Int32          // see measureCopies
	clients *listener.Guard
	flusher *flush.Flusher // nil unless Sync is SyncGroup
	routes  *routes        // nil unless Config.Cluster is set

	mu      sync.Mutex
	failure error

	failed   chan struct{} // closed when failure is set
	stopping chan struct{} // closed by Close
	tasks    sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// running is one nats-server. A restart replaces it.
type running struct {
	nats *server.Server
	auth *authenticator
	log  *natsLog
}

// Start starts a server and returns when JetStream is ready. If Start returns an error,
// it has stopped everything that it started. The end of ctx ends the start, not the
// server. It does not interrupt recovery: no other server may open the store while
// nats-server reads it.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	return start(ctx, cfg, nil)
}

func start(ctx context.Context, cfg Config, sync flush.Syncer) (*Server, error) {
	if err := errors.Join(cfg.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	if cfg.Sync = cmp.Or(cfg.Sync, SyncAlways); cfg.Cluster != nil {
		cfg.Sync = SyncAlways // nats-server flushes the raft log, in groups
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	keys, err := newKeys()
	if err != nil {
		return nil, err
	}
	dir, err := openDataDir(cfg.DataDir, sync)
	if err != nil {
		return nil, err
	}
	node, err := dir.checkMode(cfg.Cluster)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	srv := &Server{cfg: cfg, dir: dir, keys: keys, failed: make(chan struct{}), stopping: make(chan struct{})}
	srv.clients = listener.New(listener.Config{
		Limits: cfg.limits(), Account: clientAccount, Server: srv.nats, ClientsReply: cfg.functionsAreOpen(), Logger: cfg.Logger,
	}, srv.stopping)
	if cfg.Cluster != nil {
		srv.behind.Store(behindChecks)
		srv.routes = newRoutes(cfg.Cluster, node.Run, srv.connected)
	}
	if err := srv.open(ctx); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return srv, nil
}

// open prepares the directory and starts everything. After an error nothing runs.
func (s *Server) open(ctx context.Context) error {
	if err := s.dir.Recover(); err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir.path, err)
	}
	if err := s.mendCopy(); err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir.path, err)
	}
	if err := s.launchFirst(ctx); err != nil {
		return err
	}
	if err := s.dir.NoteMode(string(s.cfg.Sync)); err != nil {
		s.stop()
		return err
	}
	if s.cfg.Local {
		s.listenLocally()
	}
	s.measure()
	s.tasks.Go(func() {
		ticker := time.NewTicker(healthEvery)
		defer ticker.Stop()
		s.keepHealthy(ticker.C, s.check)
	})
	if s.cfg.Addr != "" {
		s.tasks.Go(s.clients.Watch)
	}
	if s.routes != nil {
		return s.serveNode()
	}
	return nil
}

// launchFirst launches nats-server. If writes cannot be flushed in groups, it launches it
// with SyncAlways. After an error nothing runs.
func (s *Server) launchFirst(ctx context.Context) error {
	if s.cfg.Sync != SyncGroup {
		return s.launch(ctx)
	}
	err := s.launchGrouped(ctx)
	if !errors.Is(err, errUngroupable) {
		return err
	}
	s.cfg.Logger.Warn("each write is flushed separately", "error", err)
	s.cfg.Sync = SyncAlways
	if err := s.dir.Settle(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// errUngroupable wraps the reason why writes cannot be flushed in groups. nats-server
// must then flush each write itself.
var errUngroupable = errors.New("writes cannot be flushed in groups")

// launchGrouped starts the Flusher, and then nats-server. From the first instant, blocks
// that nats-server removes or rewrites have links.
func (s *Server) launchGrouped(ctx context.Context) (err error) {
	if err := s.dir.Groupable(); err != nil {
		return fmt.Errorf("%w: %w", errUngroupable, err)
	}
	if s.flusher, err = s.dir.Start(s.writeErr, s.fail, s.cfg.Flushed); err != nil {
		return fmt.Errorf("data directory %s: %w", s.dir.path, err)
	}
	if err = s.launch(ctx); err == nil {
		err = s.flusher.Started()
	}
	if err != nil {
		s.stop()
		s.flusher = nil
	}
	return err
}

// launch starts a nats-server. After an error no nats-server runs.
func (s *Server) launch(ctx context.Context) error {
	r, err := s.prepare()
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	s.now.Store(r)
	r.nats.Start()
	s.startRoutes(r.nats)
	if err := s.ready(ctx); err != nil {
		s.shutDown()
		return err
	}
	if addr := r.nats.Addr(); addr != nil {
		s.cfg.Addr = addr.String() // a restart takes the same port
	}
	return nil
}

func (s *Server) prepare() (*running, error) {
	auth := &authenticator{cfg: s.cfg, srv: s, keys: s.keys}
	options, err := s.cfg.options(s.dir.path, auth)
	if err == nil && s.routes != nil {
		err = s.routes.apply(options)
	}
	if err != nil {
		return nil, err
	}
	nats, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	if err := auth.findAccounts(nats); err != nil {
		return nil, err
	}
	log := newNatsLog(s.cfg.Logger)
	nats.SetLoggerV2(log, false, false, false)
	return &running{nats, auth, log}, nil
}

// ready waits until the server accepts requests, and checks what it recovered.
func (s *Server) ready(ctx context.Context) error {
	if err := s.now.Load().log.err(); err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	if !s.nats().ReadyForConnections(readyTimeout) || !s.nats().JetStreamEnabled() {
		return cmp.Or(s.broken(), errors.New("nats-server: JetStream did not become ready"))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.routes != nil {
		return nil // the other nodes have what this one lacks
	}
	return s.checkRecovery(ctx)
}

func (s *Server) nats() *server.Server { return s.now.Load().nats }

// writeErr returns the write error that the running nats-server has reported, or nil.
func (s *Server) writeErr() error {
	if r := s.now.Load(); r != nil {
		return r.log.writeErr()
	}
	return nil
}

// Sync returns how writes reach the disk: Config.Sync, or SyncAlways if Config.Sync is
// SyncGroup and group flushing is not possible.
func (s *Server) Sync() Sync { return s.cfg.Sync }

// Flusher returns the Flusher of the server, or nil unless Sync is SyncGroup.
func (s *Server) Flusher() *flush.Flusher { return s.flusher }

// Failed returns a channel that is closed when the server cannot go on: its data in
// memory may differ from its data on disk. The process should end, and start again
// from the disk. Err returns the reason.
func (s *Server) Failed() <-chan struct{} { return s.failed }

// Err returns the reason why the server has failed, or nil.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return
	}
	s.failure = err
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		s.dir.NoteFailure()
	}()
	select {
	case <-noted:
	case <-time.After(noteTimeout): // a disk that hangs must not keep the process from ending
	}
	close(s.failed)
}

// Connect opens a connection within the process to the account that owns the bucket.
// The connection reconnects without limit. The caller must close it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return s.connect(s.keys.bucket, opts)
}

// ConnectService opens a connection within the process to the account of the
// listener's clients, for a service that answers them. The connection may publish and
// subscribe to all subjects of that account. The caller must close it.
func (s *Server) ConnectService(opts ...nats.Option) (*nats.Conn, error) {
	return s.connect(s.keys.service, opts)
}

func (s *Server) connect(key nkey, opts []nats.Option) (*nats.Conn, error) {
	ours := []nats.Option{
		nats.Name(serverName),
		nats.InProcessServer(s),
		nats.Timeout(listener.ConnectTimeout),
		nats.FlusherTimeout(0), // a deadline of a net.Pipe takes a timer and a channel for each write
		key.option(),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
	}
	return nats.Connect("", append(ours, opts...)...)
}

// jetStream returns the JetStream API on a connection of its own. The caller must close its Conn.
func (s *Server) jetStream() (jetstream.JetStream, error) {
	nc, err := s.Connect()
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc) // fails only for options
}

// Clients returns what knows the clients of the listener, and bounds what they may take.
func (s *Server) Clients() *listener.Guard { return s.clients }

// ClientURL returns the URL of the listener, or "" if there is none.
func (s *Server) ClientURL() string {
	nats := s.nats()
	if nats.Addr() == nil {
		return ""
	}
	return nats.ClientURL()
}

// InProcessConn implements nats.InProcessConnProvider, for the options of ConnectService. It
// connects to the nats-server that is running at the time of the call.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats().InProcessConn() }

// Close stops the server, waits until its storage is written, and unlocks the data
// directory. The caller should close connections first. Further calls return the
// result of the first.
//
// After a failure Close takes at most 5 seconds, and the data directory may stay
// locked until the process ends.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	if s.routes != nil && s.Err() == nil {
		s.handOver()
	}
	close(s.stopping)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.tasks.Wait()
		s.stop()
	}()
	if s.Err() == nil {
		select {
		case <-stopped:
		case <-s.failed:
		}
	}
	if err := s.Err(); err != nil {
		select {
		case <-stopped:
			return s.dir.close()
		case <-time.After(closeTimeout):
			return errors.New("nats-server does not stop")
		}
	}
	// Without cleanFile, the next start treats this stop as an unclean one.
	err := s.dir.MarkClean()
	if flush.Retriable(err) {
		err = nil
	}
	return errors.Join(err, s.dir.close())
}

// stop stops the Flusher and nats-server, if they run.
func (s *Server) stop() {
	if s.flusher != nil {
		s.flusher.Close()
	}
	s.shutDown()
}

func (s *Server) shutDown() {
	if r := s.now.Load(); r != nil {
		r.nats.Shutdown()
		r.nats.WaitForShutdown()
	}
}
