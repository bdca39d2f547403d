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

	// maxMute is how many times in a row the server may leave the question after its
	// health open. It is stuck then, as when the disk does not answer.
	maxMute = 10
)

// keepHealthy looks after the server until stop is closed. A server that could not
// write stays so until it is started again. That is done once there is space on the
// disk; any other error is the end.
func (s *Server) keepHealthy() {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	var answer chan error
	for mute := 0; ; {
		if answer == nil {
			answer, mute = s.askHealth(), 0
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
				s.cfg.Logger.Error().Err(err).Msg("the disk is full; nats-server is started again when there is space")
				if err := s.restart(); err != nil {
					s.fail(err)
				}
			}
		default:
			if mute++; mute >= maxMute {
				s.fail(errors.New("nats-server does not answer"))
			}
		}
	}
}

// askHealth asks the server which of its streams it could not write to.
func (s *Server) askHealth() chan error {
	answer := make(chan error, 1) // so that an answer that comes too late blocks no goroutine
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

// restart starts the server again as soon as there is space. Connections within the
// process find the new one by themselves.
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
		return fmt.Errorf("start again: %w", err)
	}
	s.cfg.Logger.Info().Msg("nats-server was started again")
	return nil
}

// pause waits for d; it returns false when the server is being closed.
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
