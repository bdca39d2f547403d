package natsembed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	healthEvery = time.Second

	// maxUnanswered is how many ticks of healthEvery one health check may take. After
	// that the server counts as stuck, as it is when the disk does not respond.
	maxUnanswered = 10
)

// keepHealthy checks the server until s.stopping or s.failed is closed. After a write
// error nats-server does not write until it is restarted. If the disk was full,
// keepHealthy restarts it once there is space; after any other error the server fails.
func (s *Server) keepHealthy() {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	var answer chan error
	for unanswered := 0; ; {
		if answer == nil {
			answer, unanswered = s.checkHealth(), 0
		}
		select {
		case <-s.stopping:
			return
		case <-s.failed:
			return
		case <-ticker.C:
		}
		select {
		case err := <-answer:
			answer = nil
			switch {
			case err == nil:
			case !isNoSpace(err):
				s.fail(err)
			default:
				s.cfg.Logger.Error().Err(err).Msg("the disk is full; nats-server restarts when there is space")
				if err := s.restart(); err != nil {
					s.fail(err)
				}
			}
		default:
			if unanswered++; unanswered >= maxUnanswered {
				s.fail(errors.New("nats-server does not answer"))
			}
		}
	}
}

// checkHealth starts a health check. The channel receives the error of a stream that
// the server could not write to, or nil.
func (s *Server) checkHealth() chan error {
	answer := make(chan error, 1) // buffered: keepHealthy may have returned by then
	nats := s.nats()
	go func() { answer <- writeError(nats) }()
	return answer
}

func writeError(nats *server.Server) error {
	health := nats.Healthz(&server.HealthzOptions{Account: bucketAccount, Details: true})
	for _, e := range health.Errors {
		if e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// restart stops nats-server and starts a new one as soon as there is disk space.
// Connections within the process reconnect by themselves.
func (s *Server) restart() error {
	s.shutDown()
	for {
		room, err := s.dir.hasRoom()
		if err != nil {
			return err
		}
		if !room {
			if !s.pause(healthEvery) {
				return nil
			}
			continue
		}
		err = s.startAgain()
		if err == nil || !isNoSpace(err) {
			return err
		}
	}
}

func (s *Server) startAgain() error {
	streams, err := listStreams(s.dir.streamsPath())
	if err != nil {
		return err
	}
	for _, name := range streams {
		if err := s.dir.dropDerived(name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), recoveryCheckTimeout)
	defer cancel()
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	s.cfg.Logger.Info().Msg("nats-server restarted")
	return nil
}

// pause waits for d. It returns false if the server is closed meanwhile.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stopping:
		return false
	case <-timer.C:
		return true
	}
}
