package natsembed

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const recoveryCheckTimeout = 30 * time.Second

// checkRecovery fails when a stream that is on disk did not come back.
// nats-server logs a warning about a damaged stream and goes on without it;
// the bucket would be created anew, empty, over leases that are still held.
func (s *Server) checkRecovery(ctx context.Context) error {
	names, err := s.dir.streams(bucketAccount)
	if err != nil || len(names) == 0 {
		return err
	}
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryCheckTimeout)
	defer cancel()
	for _, name := range names {
		if _, err := js.Stream(ctx, name); err != nil {
			return fmt.Errorf("data directory %s: stream %s was not recovered (see nats-server's warnings): %w", s.dir.path, name, err)
		}
	}
	return nil
}
