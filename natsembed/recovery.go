package natsembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

const recoveryCheckTimeout = 30 * time.Second

// checkRecovery returns an error if nats-server has not recovered a stream that is on
// disk. nats-server only logs a warning about a damaged stream and runs without it; a
// store would create an empty bucket while clients still hold leases of the old one.
//
// nats-server does not answer if it has stopped JetStream meanwhile, since a client's write
// failed: broken returns the reason then.
func (s *Server) checkRecovery(ctx context.Context) error {
	names, err := s.dir.Streams()
	if err != nil || len(names) == 0 {
		return err
	}
	js, err := s.jetStream()
	if err != nil {
		return cmp.Or(s.broken(), err)
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(ctx, recoveryCheckTimeout)
	defer cancel()
	for _, name := range names {
		err := context.DeadlineExceeded
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && s.broken() == nil {
			asked, cancel := context.WithTimeout(ctx, healthEvery)
			_, err = js.Stream(asked, name)
			cancel()
		}
		if err != nil {
			return cmp.Or(s.broken(), fmt.Errorf("data directory %s: stream %s was not recovered (see nats-server's warnings): %w", s.dir.path, name, err))
		}
	}
	return nil
}
