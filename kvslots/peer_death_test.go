package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// mortal opens a peer with a connection of its own. Closing the connection kills the
// peer for all others; the Store is closed with the test.
func mortal(t *testing.T, srv *natstest.Server) (*Store, *nats.Conn) {
	t.Helper()
	nc := srv.Connect()
	s, err := Open(t.Context(), nc, Config{Logger: logtest.Logger()})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
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
		last := arrive(context.Background(), t, []*Store{peers[1]}, 0, third, Lock("k"), acquires, 3)

		nc.Close()
		began := time.Now()
		mustLetGo(t, peers[0], holder, Lock("k"), held)
		g, err := peers[1].Wait(t.Context(), first, Lock("k"), time.Minute)
		if err != nil || g.Fence <= held.Fence {
			t.Fatal(g, err)
		}
		t.Logf("served by another peer after %v", time.Since(began))
		select {
		case <-last.done:
			t.Fatal("granted to two", last.grant, last.err)
		default:
		}
		_, err = peers[0].Wait(t.Context(), first, Lock("k"), 0)
		wantErr(t, err, ErrNotEnqueued)
		mustLetGo(t, peers[0], first, Lock("k"), g)
		<-last.done
		if last.err != nil || last.grant.Fence <= g.Fence {
			t.Fatal(last.grant, last.err)
		}
		mustLetGo(t, peers[1], third, Lock("k"), last.grant)
		endAll(t, peers[1], holder, first, lost, third)
		noRemains(t, srv, peers...)
	})
}

// Sessions, their grants and their places in line outlive a restart of all peers and the
// server.
func TestRestartKeepsSessions(t *testing.T) {
	dir := t.TempDir()
	srv := natstest.Start(t, dir, syncAlways)
	ctx := t.Context()
	nc := srv.Connect()
	s, err := Open(ctx, nc, Config{Logger: logtest.Logger(), Sole: true})
	natstest.Must(t, err)
	var sessions []string
	for range 4 {
		sessions = append(sessions, newSession(t, s, time.Minute))
	}
	held := mustHold(t, s, sessions[0], Lock("k"))
	many := mustHold(t, s, sessions[0], Semaphore("s", 2))
	for i, id := range sessions[1:] {
		if _, acquired, err := s.Enqueue(ctx, id, Lock("k"), WithTTL(time.Minute)); acquired || err != nil {
			t.Fatal(acquired, err)
		}
		inLine(t, s, Lock("k"), i+1)
	}
	waits := make(chan error)
	go func() {
		_, err := s.Wait(ctx, sessions[1], Lock("k"), time.Minute)
		waits <- err
	}()
	eventually(t, "it waits", func() bool { return awaiting(s, Lock("k")) == 1 })
	_ = s.Close(ctx)
	wantErr(t, <-waits, ErrClosed)
	nc.Close()
	srv.Stop()

	srv = natstest.Start(t, dir, syncAlways)
	again, err := Open(ctx, srv.Connect(), Config{Logger: logtest.Logger(), Sole: true})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	now := statsOf(t, again, Lock("k"))
	if len(now.Holders) != 1 || now.Holders[0].Fence != held.Fence || len(now.Waiters) != 3 {
		t.Fatalf("after the restart: %+v", now)
	}
	for _, id := range sessions {
		natstest.Must(t, again.Ping(ctx, id))
	}
	if left, err := again.Extend(ctx, sessions[0], Semaphore("s", 2), many.Token, time.Minute); err != nil || left != time.Minute {
		t.Fatal(left, err)
	}
	_, _, err = again.Enqueue(ctx, sessions[1], Lock("k"), WithTTL(time.Minute))
	wantErr(t, err, ErrAlreadyEnqueued)
	mustLetGo(t, again, sessions[0], Lock("k"), held)
	last := held.Fence
	for _, id := range sessions[1:] {
		g, err := again.Wait(ctx, id, Lock("k"), time.Minute)
		if err != nil || g.Fence <= last {
			t.Fatal(g, err)
		}
		last = g.Fence
		mustLetGo(t, again, id, Lock("k"), g)
	}
	endAll(t, again, sessions...)
	noRemains(t, srv, again)
}
