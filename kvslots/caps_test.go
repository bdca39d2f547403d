package kvslots

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// The caps count what sessions hold and wait for, not their attempts.
func TestCapsLetPass(t *testing.T) {
	srv := natstest.Start(t, "")
	s := openPeer(t, srv.Connect(), Config{MaxLocks: 1, MaxWaiters: 1, MaxSessionsPerOrigin: 1})
	var sessions []string
	for range 4 { // of no origin
		sessions = append(sessions, newSession(t, s, time.Minute))
	}
	for _, origin := range []string{"here", "there"} {
		id, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute), WithOrigin(origin))
		natstest.Must(t, err)
		sessions = append(sessions, id)
	}
	// A cap on waiters does not limit holders, and a cap on names does not limit the
	// sessions that share a name.
	one := mustHold(t, s, sessions[0], Semaphore("k", 2))
	mustHold(t, s, sessions[1], Semaphore("k", 2))
	_, err := s.Acquire(t.Context(), sessions[2], Semaphore("k", 2), WithTTL(time.Minute), WithWait(0))
	wantErr(t, err, ErrNoSlot)
	if _, acquired, err := s.Enqueue(t.Context(), sessions[2], Semaphore("k", 2), WithTTL(time.Minute)); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	_, _, err = s.Enqueue(t.Context(), sessions[3], Semaphore("k", 2), WithTTL(time.Minute))
	wantErr(t, err, ErrMaxWaiters)
	_, err = s.Acquire(t.Context(), sessions[3], Lock("other"), WithTTL(time.Minute), WithWait(time.Minute))
	wantErr(t, err, ErrMaxLocks)
	mustLetGo(t, s, sessions[0], Semaphore("k", 2), one)
	natstest.Must(t, natstest.Err(s.Wait(t.Context(), sessions[2], Semaphore("k", 2), time.Minute)))
	if _, acquired, err := s.Enqueue(t.Context(), sessions[3], Semaphore("k", 2), WithTTL(time.Minute)); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	endAll(t, s, sessions...)
	mustHold(t, s, newSession(t, s, time.Minute), Lock("other"))
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Sessions != 1 || len(stats.Names) != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
}
