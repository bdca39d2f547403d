package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// mortal opens a peer with a connection of its own. Closing the connection kills the
// peer for all others; the Store is closed with the test.
func mortal(t *testing.T, srv *natstest.Server) (*Store, *nats.Conn) {
	t.Helper()
	nc := srv.Connect()
	s := openPeer(t, nc, Config{})
	return s, nc
}

// A session that joined a line at a peer that died keeps its place, gets its turn, and
// can wait at another peer. No other session loses its place.
func TestPlaceOutlivesPeer(t *testing.T) {
	t.Parallel() // it waits most of the time
	together(t, 2, func(t *testing.T, i int) {
		waiting := i == 1 // in Wait, at the peer that dies
		srv := natstest.Start(t, "")
		peers := openPeers(t, srv, 2)
		dying, nc := mortal(t, srv)
		holder := newSession(t, peers[0], time.Minute)
		held := mustHold(t, peers[0], holder, Lock("k"))

		first := newSession(t, dying, time.Minute)
		if _, acquired, err := dying.Enqueue(t.Context(), first, Lock("k"), WithTTL(time.Minute)); acquired || err != nil {
			t.Fatal(acquired, err)
		}
		if waiting {
			go func() { _, _ = dying.Wait(context.Background(), first, Lock("k"), time.Minute) }()
		}
		// An Acquire at the dead peer loses its place.
		lost := newSession(t, dying, time.Minute)
		go func() {
			_, _ = dying.Acquire(context.Background(), lost, Lock("k"), WithTTL(time.Minute), WithWait(time.Minute))
		}()
		inLine(t, peers[0], Lock("k"), 2)
		third := newSession(t, peers[1], time.Minute)
		var granted Grant
		last := make(chan error, 1)
		go func() {
			var err error
			granted, err = peers[1].Acquire(t.Context(), third, Lock("k"), WithTTL(time.Minute), WithWait(time.Minute))
			last <- err
		}()
		inLine(t, peers[0], Lock("k"), 3)

		nc.Close()
		began := time.Now()
		mustLetGo(t, peers[0], holder, Lock("k"), held)
		g, err := peers[1].Wait(t.Context(), first, Lock("k"), time.Minute)
		if err != nil || g.Fence <= held.Fence {
			t.Fatal(g, err)
		}
		t.Logf("served by another peer after %v", time.Since(began))
		select {
		case err := <-last:
			t.Fatal("granted to two", granted, err)
		default:
		}
		_, err = peers[0].Wait(t.Context(), first, Lock("k"), 0)
		wantErr(t, err, ErrNotEnqueued)
		mustLetGo(t, peers[0], first, Lock("k"), g)
		if err := <-last; err != nil || granted.Fence <= g.Fence {
			t.Fatal(granted, err)
		}
		mustLetGo(t, peers[1], third, Lock("k"), granted)
		endAll(t, peers[1], holder, first, lost, third)
		noRemains(t, srv, peers...)
	})
}
