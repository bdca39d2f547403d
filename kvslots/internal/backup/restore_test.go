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

// A restore is killed after each of its steps. From the creation of the new stream to its completion no store serves
// what was restored so far. Repeated, the restore completes.
func TestKilledRestore(t *testing.T) {
	killed := errors.New("killed")
	for i, step := range backup.Steps {
		t.Run("after "+step, func(t *testing.T) {
			srv := natstest.Start(t, "")
			s, pool := open(t, srv), uuid.New()
			natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, 2)))
			lease, err := s.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
			natstest.Must(t, err)
			natstest.Must(t, s.Close(t.Context()))
			b, err := backup.Dump(t.Context(), srv.Connect())
			natstest.Must(t, err)
			before := republished(t, srv)
			nc := srv.Connect()
			if err := backup.Begun(t.Context(), nc, b, i+1, func() error { return killed }); err != nil && !errors.Is(err, killed) {
				t.Fatal(err)
			}
			nc.Close()
			wantKilled(t, srv, step, pool)
			restored, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: step == "check" || step == "complete"})
			if err != nil || restored != (backup.Summary{Pools: 1, Leases: 1}) {
				t.Fatalf("restored %+v, %v", restored, err)
			}
			if now := republished(t, srv); now == before {
				t.Error("the new stream republishes where the old one did")
			}
			again := open(t, srv)
			if id := again.ID(); id != b.Store {
				t.Errorf("the id is %s, and was %s", id, b.Store)
			}
			natstest.Must(t, natstest.Err(again.Renew(t.Context(), pool, lease.ID(), time.Minute)))
			next, err := again.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
			if err != nil || next.Position() != 1 || next.Fence() <= lease.Fence() {
				t.Errorf("lent %+v, %v after the fence %d", next, err, lease.Fence())
			}
		})
	}
}

// wantKilled checks what a restore leaves that is killed after a step.
func wantKilled(t *testing.T, srv *natstest.Server, step string, pool uuid.UUID) {
	t.Helper()
	switch step {
	case "create", "write":
		_, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
		if !errors.Is(err, natsstore.ErrWrongBucket) || !strings.Contains(err.Error(), "repeat kvslots restore") {
			t.Errorf("opened a bucket that is half restored: %v", err)
		}
		if _, err := backup.Dump(t.Context(), srv.Connect()); err == nil {
			t.Error("backed up a bucket that is half restored")
		}
	case "check", "complete":
		other := open(t, srv)
		if got, err := other.Inspect(t.Context(), pool); err != nil || got.InUse != 1 {
			t.Errorf("another store has %+v, %v", got, err)
		}
		natstest.Must(t, other.Close(t.Context()))
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

// A restore that is refused leaves the bucket as it was.
func TestRefusedRestore(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	natstest.Must(t, natstest.Err(s.Register(t.Context(), uuid.New(), 1)))
	refused := func(on *natstest.Server, o backup.Options, want error) {
		t.Helper()
		if _, err := backup.Restore(t.Context(), on.Connect(), b, o); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	refused(srv, backup.Options{Replace: true}, backup.ErrInUse)
	natstest.Must(t, s.Close(t.Context()))
	refused(srv, backup.Options{}, backup.ErrNotEmpty)
	// A clock that is behind the backup's would lower fences and lengthen leases.
	b.Time = time.Now().Add(time.Hour)
	for _, server := range []*natstest.Server{srv, natstest.Start(t, "")} {
		refused(server, backup.Options{Replace: true}, backup.ErrClock)
	}
	if left, err := backup.Dump(t.Context(), srv.Connect()); err != nil || len(left.Entries) != 1 {
		t.Errorf("left %+v, %v", left, err)
	}
}

// A peer that was killed uses the bucket no more: its presence ends, or the caller knows.
func TestRestoreAfterAKilledPeer(t *testing.T) {
	srv := natstest.Start(t, "")
	open(t, srv)
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	if _, err := backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Unused: true}); err != nil {
		t.Error(err)
	}
}

// Of two restores at once, or of a restore and a peer, the first one fails, whatever it has done.
func TestRestoreIsInterfered(t *testing.T) {
	srv := natstest.Start(t, "")
	s := open(t, srv)
	for range 3 {
		natstest.Must(t, natstest.Err(s.Register(t.Context(), uuid.New(), 1)))
	}
	natstest.Must(t, s.Close(t.Context()))
	b, err := backup.Dump(t.Context(), srv.Connect())
	natstest.Must(t, err)
	for i, step := range backup.Steps[:len(backup.Steps)-1] {
		other := func() error {
			return natstest.Err(backup.Restore(t.Context(), srv.Connect(), b, backup.Options{Replace: true}))
		}
		err := backup.Begun(t.Context(), srv.Connect(), b, i+1, other)
		if step != "check" && !errors.Is(err, backup.ErrInterfered) { // otherwise it replaces what the other has restored
			t.Errorf("after %s: %v", step, err)
		}
		_ = other()
		if left, err := backup.Dump(t.Context(), srv.Connect()); err != nil || len(left.Entries) != 3 {
			t.Errorf("after %s: left %+v, %v", step, left, err)
		}
	}
}
