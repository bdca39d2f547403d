// Package forrst is a server of the Forrst protocol: POST /rpc takes an envelope
// that names a function, calls the function, and answers with an envelope. With
// the extension urn:forrst:ext:atomicLock the function runs under a lock, which is
// a lock of kvslots (gateway/README.md, "Forrst: /rpc").
//
// Functions are those registered with Handle, in this process, and services on
// NATS: a call of payments.charge is a request to forrst.fn.payments.charge. The
// functions that manage locks and describe the server are the package's own.
//
// A call takes its lock, calls the function, and releases the lock before it
// answers, whatever became of the function. The lock is never renewed: a function
// that outlives it is told so in the answer, and its fence tells the resource that
// the lock protects.
//
// What Forrst leaves open: envelopes are read strictly, and a field that is not
// known is refused; so is an extension that is not known. `context` is accepted and
// not passed on. A call ends when the function has answered, at Config.Timeout at
// the latest, and not when its client hangs up. A client that hangs up while its
// call waits for the lock leaves the line.
package forrst

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

const (
	protocolName    = "forrst"
	protocolVersion = "0.1.0"

	// DefaultPrefix is Config.Prefix when it is empty.
	DefaultPrefix = "forrst.fn"

	// DefaultTimeout is Config.Timeout when it is 0.
	DefaultTimeout = 30 * time.Second
)

// Config says what a Server serves.
type Config struct {
	// Lending is the *gateway.Lending that all transports of the gateway share.
	Lending *ops.Lending

	// NATS is the connection on which functions of other processes are called.
	// It has to be in their account. nil means that there are none.
	NATS *nats.Conn

	// Prefix stands before a function's name in the subject of its requests.
	// Empty means DefaultPrefix.
	Prefix string

	// Functions are those of this process. nil means those of Handle.
	Functions *Functions

	// Timeout is how long a function may take. 0 means DefaultTimeout.
	Timeout time.Duration

	// MaxWait is the longest wait that the locks grant, for what is told of a call
	// that has waited in vain. 0 means kvslots.DefaultMaxWait.
	MaxWait time.Duration

	// Tokens are the *gateway.Tokens of which callers over NATS must send one to
	// release the locks of other owners; nil asks for none. Over HTTP the gateway
	// asks for them.
	Tokens *ops.Tokens

	// NoForceRelease switches that release off.
	NoForceRelease bool

	// Version is what health and describe say of the server.
	Version string

	// Logger takes what a call failed of, and nothing that a call had in it.
	Logger zerolog.Logger
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Functions == nil {
		c.Functions = defaultFunctions
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxWait == 0 {
		c.MaxWait = kvslots.DefaultMaxWait
	}
	return c
}

// Server answers calls until Close. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	locks ops.OwnedLocks
	log   zerolog.Logger
	own   map[string]builtin

	mu     sync.Mutex // over closed, and over tasks.Add against tasks.Wait
	closed bool
	tasks  sync.WaitGroup // calls, and releases that are tried again
	calls  sync.WaitGroup
	cut    atomic.Int64 // calls that were given up since the server stops
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// New makes a server over locks, such as a *kvslots.Store.
func New(locks ops.OwnedLocks, cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), locks: locks, log: cfg.Logger}
	s.own = s.builtins()
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Close takes no more calls, gives up waiting for the functions under way, whose
// calls fail and whose locks are released, and returns when that is done or ctx
// ends.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel(errStopping)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tasks.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Finish takes no more calls, and returns when those under way have ended. When ctx
// ends first, it gives up waiting for their functions: the calls fail, their locks
// are released, and Finish returns when that is done.
func (s *Server) Finish(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.calls.Wait()
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	s.cancel(errStopping)
	<-done
	if n := s.cut.Load(); n > 0 {
		s.log.Warn().Int64("calls", n).Msg("the time to stop was over; calls were cut short whose functions had not answered")
	}
}

// beginCall counts a call, unless the server is closed.
func (s *Server) beginCall() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.tasks.Add(1)
	s.calls.Add(1)
	return func() {
		s.calls.Done()
		s.tasks.Done()
	}, true
}

// begin counts a task, unless the server is closed.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Add(1)
	return true
}
