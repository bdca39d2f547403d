package natsembed

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// Durable calls then once everything that the server acknowledged before the call survives a
// power cut, as far as Config.Sync promises that: see Flusher. It is for kvslots.Config.Embedded.
func (s *Server) Durable(then func(error)) {
	if s.flusher == nil { // the server flushes before it acknowledges, or its clients do not wait for that
		then(nil)
		return
	}
	s.flusher.Durable(then)
}

// flushSubject is the subject, in the bucket's account, of requests to call Server.Flush. The
// answer is the error's text, or empty.
const flushSubject = subjects.Gateway + ".flush"

// Flush makes everything durable that the server acknowledged before the call: entries, and
// streams that were created, updated or deleted. An error means that this may not be so. If
// the disk failed, the server has failed: see Failed.
func (s *Server) Flush() error {
	if s.flusher != nil {
		done := make(chan error, 1)
		s.flusher.Durable(func(err error) { done <- err })
		return <-done
	}
	err := s.dir.Flush()
	if errors.Is(err, flush.ErrFailed) {
		s.fail(err)
	}
	return err
}

// Flush calls Server.Flush of the server to which Dial has connected.
func Flush(ctx context.Context, nc *nats.Conn) error {
	answer, err := nc.RequestWithContext(ctx, flushSubject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("the running gateway is just starting or ending: try again")
	case err != nil:
		return fmt.Errorf("flush: %w", err)
	case len(answer.Data) > 0:
		return errors.New(string(answer.Data))
	}
	return nil
}

// serveFlush answers the requests of Flush until the connection is closed.
func (s *Server) serveFlush(nc *nats.Conn) error {
	_, err := nc.Subscribe(flushSubject, func(m *nats.Msg) {
		var answer []byte
		if err := s.Flush(); err != nil {
			answer = []byte(err.Error())
		}
		_ = m.Respond(answer)
	})
	if err != nil {
		return err
	}
	return nc.Flush() // the server knows the subscription before another process can dial
}
