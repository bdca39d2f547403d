package natsembed

import (
	"context"
	"fmt"
	"time"
)

const recoveryCheckTimeout = 30 * time.Second

// checkRecovery returns an error if nats-server has not recovered a stream that is on
// disk. nats-server only logs a warning about a damaged stream and runs without it; a
// store would create an empty bucket while clients still hold leases of the old one.
func (s *Server) checkRecovery(ctx context.Context) error {
	names, err := s.dir.Streams()
	if err != nil || len(names) == 0 {
		return err
	}
	js, err := s.jetStream(s.keys.bucket)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(ctx, recoveryCheckTimeout)
	defer cancel()
	for _, name := range names {
		if _, err := js.Stream(ctx, name); err != nil {
			return fmt.Errorf("data directory %s: stream %s was not recovered (see nats-server's warnings): %w", s.dir.path, name, err)
		}
	}
	return nil
}
