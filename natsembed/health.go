package natsembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

const (
	healthEvery = time.Second

	// maxUnanswered is how many ticks of healthEvery one health check may take. After
	// that the server counts as stuck, as it is when the disk does not respond.
	maxUnanswered = 10
)

var errStuck = errors.New("nats-server or its disk does not respond")

// keepHealthy checks the server until s.stopping or s.failed is closed. After a write
// error nats-server does not write until it is restarted. If the error may pass,
// keepHealthy restarts it as soon as the disk takes writes; after any other error, or if
// check does not return for maxUnanswered ticks, the server fails.
func (s *Server) keepHealthy(ticks <-chan time.Time, check func() error) {
	var answer chan error
	for unanswered := 0; ; {
		if answer == nil {
			answer, unanswered = make(chan error, 1), 0 // buffered: keepHealthy may have returned by then
			go func() { answer <- check() }()
		}
		select {
		case <-s.stopping:
			return
		case <-s.failed:
			return
		case <-ticks:
		}
		select {
		case err := <-answer:
			answer = nil
			if err != nil {
				err = s.restart(err)
			}
			if err != nil {
				s.fail(err)
			}
		default:
			if unanswered++; unanswered >= maxUnanswered {
				s.fail(errStuck)
				if s.flusher != nil {
					s.flusher.Abandon(errStuck)
				}
			}
		}
	}
}

// check returns the error after which nats-server writes no more, or nil. It
// blocks while the disk does not respond.
func (s *Server) check() error {
	if err := s.broken(); err != nil {
		return err
	}
	s.measure()
	if s.flusher != nil {
		s.flusher.AwaitPass()
	}
	return nil
}

// broken returns the error after which the running nats-server writes no more, or nil.
func (s *Server) broken() error { return cmp.Or(s.writeErr(), disabled(s.nats())) }

// disabled returns an error if nats-server has disabled JetStream, as it does when it lacks
// the permission to write a file. It blocks while nats-server does not respond.
func disabled(nats *server.Server) error {
	health := nats.Healthz(&server.HealthzOptions{JSEnabledOnly: true, Details: true})
	for _, e := range health.Errors {
		if e.Type == server.HealthzErrorJetStream {
			return fmt.Errorf("%w: %s", errDisabled, e.Error)
		}
	}
	return nil
}

var errDisabled = fmt.Errorf("JetStream was disabled after a failed write: %w", fs.ErrPermission)

// restart stops nats-server after a write error that may pass, and starts a new one as
// soon as the disk takes writes. Connections within the process reconnect by themselves.
func (s *Server) restart(cause error) error {
	if !flush.Retriable(cause) {
		return cause
	}
	s.cfg.Logger.Error("writing failed: make sure that the disk has space, that the directory is writable and that files can be opened; nats-server restarts then",
		"error", cause, "data_dir", s.dir.path)
	s.shutDown()
	for {
		s.setRoom(fmt.Errorf("writing failed (%w), and nats-server waits to be restarted: "+
			"free some space, make the data directory writable, or raise the limit on open files", flush.Passing(cause)))
		err := s.startAgain()
		if err == nil {
			return nil
		}
		if !flush.Retriable(err) {
			return err
		}
		cause = err
		select {
		case <-s.stopping:
			return nil
		case <-time.After(healthEvery):
		}
	}
}

func (s *Server) startAgain() error {
	if err := s.dir.Mend(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recoveryCheckTimeout)
	defer cancel()
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	s.cfg.Logger.Info("nats-server restarted")
	return nil
}
