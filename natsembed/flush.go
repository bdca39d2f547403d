package natsembed

import (
	"errors"

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
