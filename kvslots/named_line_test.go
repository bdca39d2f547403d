package kvslots

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// method is how a session waits for a lock or a semaphore.
type method int

const (
	acquires  method = iota // Acquire
	waitsHere               // Enqueue, and Wait at the same peer
	waitsAway               // Enqueue, and Wait at another peer
	methods
)

func (d method) String() string { return [...]string{"acquire", "wait here", "wait away"}[d] }

// waiter is a session that waits for a lock or a semaphore.
type waiter struct {
	session string
	method  method
	at      *Store // where it waits
	grant   Grant
	err     error
	done    chan struct{}
}

func (w *waiter) String() string {
	return fmt.Sprintf("%d (%s) at %d", ownerNumber(sessionHash(w.session)), w.method, w.grant.Fence)
}

// arrive makes a session join a line as the n-th, and returns when it has joined. ctx is
// the context of the call that waits. The session joins at peers[at], and may wait at the
// next peer.
func arrive(ctx context.Context, t testing.TB, peers []*Store, at int, session string, r Resource, how method, n int) *waiter {
	t.Helper()
	w := &waiter{session: session, method: how, done: make(chan struct{})}
	here, next := peers[at%len(peers)], peers[(at+1)%len(peers)]
	w.at = here
	if how == acquires {
		go func() {
			defer close(w.done)
			w.grant, w.err = here.Acquire(ctx, session, r, WithTTL(time.Minute), WithWait(time.Minute))
		}()
	} else {
		if _, acquired, err := here.Enqueue(t.Context(), session, r, WithTTL(time.Minute)); acquired || err != nil {
			t.Fatalf("enqueue: %v, %v", acquired, err)
		}
		if how == waitsAway {
			w.at = next
		}
		before := awaiting(w.at, r)
		go func() {
			defer close(w.done)
			w.grant, w.err = w.at.Wait(ctx, session, r, time.Minute)
		}()
		eventually(t, "it waits", func() bool { return awaiting(w.at, r) > before })
	}
	inLine(t, peers[(at+2)%len(peers)], r, n)
	return w
}

// awaiting returns how many sessions are in Wait for r at a peer.
func awaiting(s *Store, r Resource) (n int) {
	_, pool, _ := strings.Cut(remains(s), fmt.Sprintf("pool %s:", r.hash()))
	_, users, _ := strings.Cut(pool, " users ")
	_, _ = fmt.Sscan(users, &n) // 0 if the peer does nothing for r
	return n
}

// inLine waits until n sessions wait for r.
func inLine(t testing.TB, s *Store, r Resource, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d stand in line", n), func() bool { return len(statsOf(t, s, r).Waiters) == n })
}

// statsOf returns the NameStats of r; zero if no session holds it or waits for it.
func statsOf(t testing.TB, s *Store, r Resource) NameStats {
	t.Helper()
	stats, err := s.Stats(t.Context())
	natstest.Must(t, err)
	for _, name := range stats.Names {
		if name.Key == r.Key {
			return name
		}
	}
	return NameStats{}
}

func mustHold(t testing.TB, s *Store, session string, r Resource) Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), session, r, WithTTL(time.Minute), WithWait(0))
	natstest.Must(t, err)
	return g
}

func mustLetGo(t *testing.T, s *Store, session string, r Resource, g Grant) {
	t.Helper()
	if err := s.Release(t.Context(), session, r, g.Token); err != nil {
		t.Errorf("release: %v", err)
	}
}

// Sessions are served in the order of arrival, by whatever method and at whatever peer.
func TestArrivalOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     Resource
		freed int // slots that are released at a time
	}{
		{"a lock", Lock("k"), 1},
		{"one slot of a semaphore", Semaphore("k", 3), 1},
		{"all slots of a semaphore", Semaphore("k", 3), 3},
	} {
		t.Run(c.name, func(t *testing.T) { arrivalOrder(t, c.r, c.freed) })
	}
}

func arrivalOrder(t *testing.T, r Resource, freed int) {
	sessions := inSoak(40, 100)
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 3)
	random := rand.New(rand.NewPCG(*historySeed, 1))
	var holders, ids []string
	var held []Grant
	for i := range r.Limit {
		holders = append(holders, newSession(t, peers[i%3], time.Minute))
		held = append(held, mustHold(t, peers[i%3], holders[i], r))
	}
	var line []*waiter
	var wg sync.WaitGroup
	var holding atomic.Int64
	for i := range sessions {
		ids = append(ids, newSession(t, peers[i%3], time.Minute))
		w := arrive(context.Background(), t, peers, random.IntN(3), ids[i], r, method(random.IntN(int(methods))), i+1)
		line = append(line, w)
		wg.Go(func() {
			<-w.done
			if w.err != nil {
				t.Errorf("%d: %v", i, w.err)
				return
			}
			if n := holding.Add(1); n > int64(freed) {
				t.Errorf("%d hold what is there %d times", n, freed)
			}
			holding.Add(-1)
			mustLetGo(t, w.at, w.session, r, w.grant)
		})
	}
	for i := range freed {
		mustLetGo(t, peers[(i+1)%3], holders[i], r, held[i])
	}
	wg.Wait()
	served := make([]int, sessions)
	for i := range served {
		served[i] = i
	}
	slices.SortFunc(served, func(x, y int) int { return cmp.Compare(line[x].grant.Fence, line[y].grant.Fence) })
	// If several slots are free, a waiter whose claim is slow may be overtaken by later
	// ones, for whom there are slots as well. So only a line that gets one slot at a time
	// has a strict order.
	most := 0
	for rank, i := range served {
		if freed == 1 && rank != i {
			t.Errorf("number %d (%s) was served as number %d", i, line[i].method, rank)
		}
		most = max(most, rank-i)
	}
	t.Logf("served at most %d places late", most)
	endAll(t, peers[0], slices.Concat(holders, ids)...)
	noRemains(t, srv, peers...)
}
