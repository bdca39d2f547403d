package backup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

func open(t *testing.T, srv *natstest.Server) *kvslots.Store {
	t.Helper()
	s, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// served repeats a call while the store is unavailable because it rebuilds its view.
func served[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	for {
		got, err := call()
		if err == nil {
			return got
		}
		if !errors.Is(err, kvslots.ErrUnavailable) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// killed runs the first steps of a restore and then closes its connection.
func killed(t *testing.T, srv *natstest.Server, b *backup.Backup, steps int) {
	t.Helper()
	nc := srv.Connect()
	defer nc.Close()
	natstest.Must(t, backup.Begun(t.Context(), nc, b, steps))
}

// wantPresent checks whether a restore has begun and not ended.
func wantPresent(t *testing.T, srv *natstest.Server, want bool) {
	t.Helper()
	js := natstest.JetStream(t, srv.Connect())
	if inbox, _, err := bucket.PresentRestore(t.Context(), js); err != nil || (inbox != "") != want {
		t.Errorf("the present restore: %q, %v; want one: %v", inbox, err, want)
	}
}

// A restore is killed after each of its steps. From the deletion of the old stream to the
// completion of the new one no store serves callers or creates a bucket. Repeated, the
// restore completes, and open stores go on.
func TestKilledRestore(t *testing.T) {
	for i, step := range backup.Steps {
		t.Run("after "+step, func(t *testing.T) {
			t.Parallel() // a store rebuilds its view once in 10 s at most
			srv := natstest.Start(t, "")
			s, pool := open(t, srv), uuid.New()
			natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 2)))
			lease, err := s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
			natstest.Must(t, err)
			b, err := backup.Dump(t.Context(), srv.Connect())
			natstest.Must(t, err)
			before := republished(t, srv)
			killed(t, srv, b, i+1)
			wantPresent(t, srv, true)
			if step == "delete" || step == "create" || step == "write" {
				wantRestoring(t, srv, s, pool)
			} else {
				other := open(t, srv)
				if got := served(t, func() (kvslots.State, error) { return other.Inspect(t.Context(), pool) }); got.InUse != 1 {
					t.Errorf("another store has %+v", got)
				}
			}
			restored, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: step == "begin" || step == "check" || step == "complete"})
			if err != nil || restored != (backup.Summary{Pools: 1, Leases: 1}) {
				t.Fatalf("restored %+v, %v", restored, err)
			}
			wantPresent(t, srv, false)
			if now := republished(t, srv); now == before {
				t.Error("the new stream republishes where the old one did")
			}
			served(t, func() (*kvslots.Lease, error) { return s.Renew(t.Context(), pool, lease.ID(), time.Minute) })
			next, err := open(t, srv).Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
			if err != nil || next.Position() != 1 || next.Fence() <= lease.Fence() {
				t.Errorf("lent %+v, %v after the fence %d", next, err, lease.Fence())
			}
		})
	}
}

// republished returns the subjects on which the bucket's stream republishes its entries.
func republished(t *testing.T, srv *natstest.Server) string {
	t.Helper()
	js := natstest.JetStream(t, srv.Connect())
	stream, err := js.Stream(t.Context(), bucket.StreamName)
	natstest.Must(t, err)
	return stream.CachedInfo().Config.RePublish.Destination
}

// wantRestoring checks that no store is opened, and that an open one serves no callers.
func wantRestoring(t *testing.T, srv *natstest.Server, s *kvslots.Store, pool uuid.UUID) {
	t.Helper()
	if _, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()}); !errors.Is(err, natsstore.ErrRestoring) {
		t.Errorf("opened a bucket that is being restored: %v", err)
	}
	if _, err := backup.Dump(t.Context(), srv.Connect()); err == nil {
		t.Error("backed up a bucket that is being restored")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := s.Ready()
		if err != nil && strings.Contains(err.Error(), "repeat kvslots restore") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); !errors.Is(err, kvslots.ErrUnavailable) {
		t.Errorf("the open store: %v", err)
	}
}

// A restore that fails before it has deleted anything leaves the bucket as it was, and no
// mark, also where there is no bucket.
func TestFailedRestore(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	natstest.Must(t, natstest.Err(s.Register(t.Context(), uuid.New(), 1)))
	if _, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{}); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	wantPresent(t, srv, false)
	// A clock that is behind the backup's would lower fences and lengthen leases.
	b.Time = time.Now().Add(time.Hour)
	for _, server := range []*natstest.Server{srv, natstest.Start(t, "")} {
		if _, err := backup.Restore(t.Context(), server.Connect(), b, backup.Options{Replace: true}); !errors.Is(err, backup.ErrClock) {
			t.Errorf("got %v", err)
		}
		wantPresent(t, server, false)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}

// While a restore runs, another one is refused at once, whatever the former has done.
func TestRestoresExcludeEachOther(t *testing.T) {
	srv := natstest.Start(t, "")
	open(t, srv)
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	for i, step := range backup.Steps {
		nc := srv.Connect()
		if err := backup.Begun(t.Context(), nc, b, i+1); err != nil {
			t.Fatal(step, err)
		}
		if _, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: true}); !errors.Is(err, backup.ErrRestoreRunning) {
			t.Errorf("after %s: %v", step, err)
		}
		nc.Close()
	}
	if _, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: true}); err != nil {
		t.Error(err)
	}
}
