package backup_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// FuzzRestore checks that a server starts again on each backup that Restore accepts, and that
// a store then lends slots with higher fences.
func FuzzRestore(f *testing.F) {
	backup.AddSeeds(f)
	f.Fuzz(func(t *testing.T, micros int64, revision uint64, replicas int, key string, at int64, value []byte, _ int64) {
		b, err := backup.Read(bytes.NewReader(backup.Fuzzed(micros, revision, replicas, key, at, value)))
		if err != nil {
			return
		}
		srv := natstest.Start(t, "")
		_, err = backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replicas: 1, Replace: true})
		if errors.Is(err, backup.ErrClock) {
			return
		}
		natstest.Must(t, err)
		srv.Restart()
		s, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
		natstest.Must(t, err)
		defer func() { _ = s.Close(context.Background()) }()
		pool := uuid.New()
		natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 1)))
		lease, err := s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		if err != nil || lease.Fence() <= revision {
			t.Errorf("lent %+v, %v after the revision %d", lease, err, revision)
		}
	})
}
