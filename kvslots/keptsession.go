package kvslots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// Session is a session that is kept alive in the background, for programs that hold locks and
// semaphores. It is safe for concurrent use.
type Session struct {
	at    Service
	opts  []Option
	id    string
	asked time.Duration   // the idle time that was asked for
	idle  time.Duration   // that was granted
	done  context.Context // ends with the session, with the cause
	end   context.CancelCauseFunc
	kept  sync.WaitGroup // the goroutine that pings it

	mu     sync.Mutex
	longer *Session // for leases that are longer than asked; nil: none yet
}

// NewSession creates a session and keeps it alive until Close. What it holds ends at the latest when nothing
// has answered for its idle time: DefaultLeaseTTL, or what WithIdle says; the server may grant less. The
// errors are those of Store.CreateSession.
func NewSession(ctx context.Context, at Service, opts ...Option) (*Session, error) {
	o := Options{Idle: DefaultLeaseTTL}
	if err := o.Apply(opts); err != nil {
		return nil, err
	}
	used := clock.Now()
	id, idle, err := at.CreateSession(ctx, slices.Concat(opts, []Option{WithIdle(o.Idle)})...)
	if err != nil {
		return nil, err
	}
	s := &Session{at: at, opts: opts, id: id, asked: o.Idle, idle: idle}
	s.done, s.end = context.WithCancelCause(context.Background())
	s.kept.Go(func() { s.keep(used) })
	return s, nil
}

// ID returns the session's id, for the methods of a Service. It is a secret.
func (s *Session) ID() string { return s.id }

// Done returns a channel that is closed when the session has ended, and so is all that it held.
func (s *Session) Done() <-chan struct{} { return s.done.Done() }

// Err returns nil until Done is closed, and then why: ErrSessionGone; ErrUnavailable if nothing
// has answered for the session's idle time; "session closed", in which errors.Is finds ErrClosed, after Close.
func (s *Session) Err() error {
	if s.done.Err() == nil {
		return nil
	}
	return context.Cause(s.done)
}

// covering returns the session for a lease of a ttl: this one, or another one with a longer idle time, which
// ends with it.
func (s *Session) covering(ctx context.Context, ttl time.Duration) (*Session, error) {
	if ttl = min(ttl, MaxSessionIdle); ttl <= s.asked {
		return s, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.longer == nil || s.longer.Err() != nil {
		longer, err := NewSession(ctx, s.at, slices.Concat(s.opts, []Option{WithIdle(ttl)})...)
		if err != nil {
			return nil, err
		}
		s.longer = longer
		context.AfterFunc(s.done, func() { longer.end(s.Err()) })
	}
	return s.longer.covering(ctx, ttl)
}

// Close ends the session and releases what it holds. It ignores the end of ctx: see
// ReturnTimeout. The errors are those of Store.EndSession; a session that has ended already is
// no error.
func (s *Session) Close(ctx context.Context) error {
	s.end(sessionClosed{})
	s.kept.Wait()
	var failed error
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.longer != nil {
		failed = s.longer.Close(ctx)
	}
	if err := s.at.EndSession(ctx, s.id); err != nil && !errors.Is(err, ErrSessionGone) {
		return err
	}
	return failed
}

type sessionClosed struct{}

func (sessionClosed) Error() string { return "session closed" }

func (sessionClosed) Unwrap() error { return ErrClosed }

func (s *Session) within(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(s.done, func() { cancel(s.Err()) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// keep pings the session every third of its idle time. Without an answer it tries again, until
// the session may have ended.
func (s *Session) keep(used time.Duration) {
	for pause := s.idle / 3; clock.Sleep(s.done, pause); {
		sent := clock.Now()
		err := s.ping(used)
		switch {
		case err == nil:
			used, pause = sent, s.idle/3
		case errors.Is(err, ErrSessionGone), errors.Is(err, ErrClosed):
			s.end(err)
			return
		case clock.Now()-used >= s.idle:
			s.end(err)
			return
		default:
			pause = min(s.idle/10, time.Second)
		}
	}
}

// ping sends one ping, and waits for its answer for a third of the idle time, but not longer
// than the session lives.
func (s *Session) ping(used time.Duration) error {
	within := min(s.idle/3, used+s.idle-clock.Now())
	ctx, cancel := context.WithTimeoutCause(s.done, within, errNoAnswer)
	defer cancel()
	return s.at.Ping(ctx, s.id)
}

var errNoAnswer = fmt.Errorf("%w: no answer in time", ErrUnavailable)
