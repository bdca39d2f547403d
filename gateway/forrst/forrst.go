package forrst

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

const (
	protocolName    = "forrst"
	protocolVersion = "0.1.0"

	// DefaultPrefix is the default of Config.Prefix.
	DefaultPrefix = "forrst.fn"

	// DefaultTimeout is the default of Config.Timeout.
	DefaultTimeout = 30 * time.Second
)

// Config configures a Server.
type Config struct {
	// Lending is the *gateway.Lending that all transports of the gateway share.
	Lending *ops.Lending

	// NATS is the connection over which the server calls functions of other processes.
	// It must be in the account of those functions. Nil means that there are none.
	NATS *nats.Conn

	// Prefix precedes a function's name in the subject of its requests. Empty means
	// DefaultPrefix.
	Prefix string

	// Functions are the functions of this process. Nil means those of Handle.
	Functions *Functions

	// Timeout bounds how long a function may take. 0 means DefaultTimeout.
	Timeout time.Duration

	// Tokens are the *gateway.Tokens of which callers need one for force-release; nil means
	// that they need none. Over HTTP the gateway also checks its tokens for every request.
	Tokens *ops.Tokens

	// Logger logs why calls fail. It receives no arguments and no results. nil means no log.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.Functions = cmp.Or(c.Functions, defaultFunctions)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Server answers calls until it is closed. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	ops      ops.Service
	log      *slog.Logger
	builtins map[string]builtin
	turns    *ops.Turns // of calls with a request key

	mu        sync.Mutex // guards closed, and the groups' Add against Wait
	closed    bool
	tasks     sync.WaitGroup // calls, and pending releases
	calls     sync.WaitGroup
	abandoned atomic.Int64 // calls whose functions had not answered when the server stopped
	ctx       context.Context
	cancel    context.CancelCauseFunc
}

// New returns a server whose calls hold locks of a store, such as a *kvslots.Store.
func New(locks ops.OwnedLocks, cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Logger,
		ops: ops.Service{Owned: locks, Lending: cfg.Lending, Events: cfg.Lending.Events(ops.APIForrst), Log: cfg.Logger},
	}
	s.ops.Functions, s.builtins, s.turns = s, s.newBuiltins(), ops.NewTurns()
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Close refuses further calls and stops waiting for running functions. Their calls
// fail, and their locks are released. Close returns when that is done or when ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.refuseCalls()
	s.cancel(errStopping)
	return wait(ctx, &s.tasks)
}

// Finish refuses further calls and waits for the running ones. When ctx ends first, it
// stops waiting for their functions: the calls fail, their locks are released, and
// Finish returns when that is done.
func (s *Server) Finish(ctx context.Context) {
	s.refuseCalls()
	defer context.AfterFunc(ctx, func() { s.cancel(errStopping) })()
	s.calls.Wait()
	if n := s.abandoned.Load(); n > 0 {
		s.log.Warn("the time to stop was over; calls were cut short whose functions had not answered", "calls", n)
	}
}

func (s *Server) refuseCalls() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// wait waits for a group. If ctx ends first, it returns its cause.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin adds a task to groups. It returns false if the server is closed.
func (s *Server) begin(groups ...*sync.WaitGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	for _, group := range groups {
		group.Add(1)
	}
	return true
}
