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
	marked    bool // there is the mark of a restore
	restoring bool // peers do not follow the stream
	entries   uint64
}

func standingOf(t *testing.T, srv *natstest.Server) (s standing) {
	t.Helper()
	js := natstest.JetStream(t, srv.Connect())
	inbox, _, err := bucket.PresentRestore(t.Context(), js)
	natstest.Must(t, err)
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	info := stream.CachedInfo()
	return standing{inbox != "", info.Config.Metadata[bucket.RestoreKey] != "", info.State.Msgs}
}

// A restore flushes the mark before it deletes the old stream, the entries before peers
// follow the new one, and that before it removes the mark. When a flush fails, so does the
// restore, which can then be repeated.
func TestRestoreFlushes(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	pool := uuid.New()
	natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 1)))
	natstest.Must(t, natstest.Err(s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))))
	natstest.Must(t, s.Close(t.Context()))
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	want := []standing{{true, false, 0}, {true, true, 2}, {true, false, 2}}
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
		nc := srv.Connect()
		_, err := backup.Restore(t.Context(), nc, b, backup.Options{Replace: true, Flush: flush})
		if err := nc.Flush(); err != nil { // then the server knows that the restore has ended
			t.Fatal(err)
		}
		if failing == len(want) && err != nil || failing < len(want) && !errors.Is(err, broken) {
			t.Fatalf("when flush %d fails: %v", failing+1, err)
		}
		expected := slices.Clone(want[:min(failing+1, len(want))])
		if len(found) > 0 {
			found[0].entries = 0 // the old bucket has entries that expire
		}
		if failing == 0 {
			expected[0].restoring = true // the one that failed before left it so
		}
		if !slices.Equal(found, expected) {
			t.Errorf("when flush %d fails, the flushes find %+v; want %+v", failing+1, found, expected)
		}
	}
	natstest.Must(t, natstest.Err(backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: true})))
	if now := standingOf(t, srv); now != (standing{false, false, 2}) {
		t.Errorf("the repeated restore leaves %+v", now)
	}
}
