package kvslots

import (
	"os"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A data directory is put back to an earlier state, as after a power cut that has lost the last
// writes. The next lease of the slot has a higher fence than the one that the directory does not
// know: a resource refuses the holder of that one. (When fences were revisions, the next lease
// had a lower one.)
func TestFencesOutliveLostTail(t *testing.T) {
	dir, earlier := t.TempDir(), t.TempDir()
	open := func(dir string) (*natstest.Server, *Store) {
		srv := natstest.Start(t, dir, syncAlways)
		s, err := Open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger()})
		natstest.Must(t, err)
		return srv, s
	}
	stop := func(srv *natstest.Server, s *Store) {
		natstest.Must(t, s.Close(t.Context()))
		srv.Stop()
	}
	srv, s := open(dir)
	pool := newPool(t, s, 1)
	stop(srv, s)
	natstest.Must(t, os.CopyFS(earlier, os.DirFS(dir)))
	srv, s = open(dir)
	for range 20 { // more writes than the other directory sees
		mustReturn(t, s, pool, mustBorrow(t, s, pool))
	}
	lost := mustBorrow(t, s, pool)
	stop(srv, s)

	srv, s = open(earlier)
	if next := mustBorrow(t, s, pool); next.Fence() <= lost.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lost.Fence())
	}
	stop(srv, s)
}
