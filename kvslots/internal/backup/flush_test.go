package backup_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// standing is what a flush makes durable.
type standing struct {
	complete bool // peers follow the stream
	entries  uint64
}

func standingOf(t *testing.T, srv *natstest.Server) standing {
	t.Helper()
	stream, err := natstest.JetStream(t, srv.Connect()).Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	info := stream.CachedInfo()
	return standing{bucket.IsComplete(info.Config), info.State.Msgs}
}

// A restore flushes the entries before peers follow the new stream, and that before it returns. When a flush fails, so
// does the restore, which can then be repeated.
func TestRestoreFlushes(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	pool := uuid.New()
	natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 1)))
	natstest.Must(t, natstest.Err(s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))))
	natstest.Must(t, s.Close(t.Context()))
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	want := []standing{{false, 2}, {true, 2}}
	broken := errors.New("the disk is broken")
	for failing := len(want); failing >= 0; failing-- { // the first time none fails
		var found []standing
		flush := func(context.Context) error {
			found = append(found, standingOf(t, srv))
			if len(found) == failing+1 {
				return broken
			}
			return nil
		}
		_, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: true, Flush: flush})
		if failing == len(want) && err != nil || failing < len(want) && !errors.Is(err, broken) {
			t.Fatalf("when flush %d fails: %v", failing+1, err)
		}
		if expected := want[:min(failing+1, len(want))]; !slices.Equal(found, expected) {
			t.Errorf("when flush %d fails, the flushes find %+v; want %+v", failing+1, found, expected)
		}
	}
	natstest.Must(t, natstest.Err(backup.Restore(t.Context(), srv.Connect(), b, backup.Options{})))
	if now := standingOf(t, srv); now != (standing{true, 2}) {
		t.Errorf("the repeated restore leaves %+v", now)
	}
}
