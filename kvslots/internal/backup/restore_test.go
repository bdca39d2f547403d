package backup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, srv *kvslotstest.Server) *kvslots.Store {
	t.Helper()
	s, err := kvslots.Open(t.Context(), srv.Connect(), kvslots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// A restore that was interrupted leaves a stream that no store uses. Repeated, it
// completes, and open stores go on.
func TestInterruptedRestore(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	s, pool := open(t, srv), uuid.New()
	if _, err := s.Register(t.Context(), pool, 2); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Borrow(t.Context(), pool, time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := backup.Dump(t.Context(), srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	for writes := range 2 {
		if err := backup.Interrupted(t.Context(), srv.Connect(), b, writes); err != nil {
			t.Fatal(err)
		}
		if _, err := kvslots.Open(t.Context(), srv.Connect(), kvslots.Config{}); !errors.Is(err, kvslots.ErrWrongBucket) {
			t.Errorf("opened a bucket that is being restored: %v", err)
		}
		if _, err := backup.Dump(t.Context(), srv.Connect()); !errors.Is(err, bucket.ErrWrongBucket) {
			t.Errorf("backed up a bucket that is being restored: %v", err)
		}
	}
	if _, err := s.Borrow(t.Context(), pool, time.Minute, 0); !errors.Is(err, kvslots.ErrUnavailable) {
		t.Errorf("the open store: %v", err)
	}
	restored, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{})
	if err != nil || restored != (backup.Summary{Pools: 1, Leases: 1}) {
		t.Fatalf("restored %+v, %v", restored, err)
	}
	for err := kvslots.ErrUnavailable; errors.Is(err, kvslots.ErrUnavailable); {
		_, err = s.Renew(t.Context(), pool, lease.ID(), time.Minute)
		if err != nil && !errors.Is(err, kvslots.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	next, err := open(t, srv).Borrow(t.Context(), pool, time.Minute, 0)
	if err != nil || next.Position() != 1 || next.Fence() <= lease.Fence() {
		t.Errorf("lent %+v, %v after the fence %d", next, err, lease.Fence())
	}
}

// A clock that is behind the backup's would lower fences and lengthen leases.
func TestRestoreWithoutTime(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	open(t, srv)
	b, err := backup.Dump(t.Context(), srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	b.Time = time.Now().Add(time.Hour)
	if _, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{}); !errors.Is(err, backup.ErrClock) {
		t.Errorf("got %v", err)
	}
}
