package kvslots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// How long after a session's end the next in line may get its slot. A busy machine may
// take longer, so only make soak checks this.
const (
	toleratedLate = 300 * time.Millisecond // after a call that ends the session
	toleratedIdle = 600 * time.Millisecond // after its deadline, since peers wait 0.5 s for a late use
)

// spread is a set of durations, which is reported by percentiles.
type spread []time.Duration

func (s spread) at(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)*percent/100, len(s)-1)]
}

func (s spread) report(t *testing.T, what string, tolerated time.Duration) {
	t.Helper()
	t.Logf("%s: p50 %v, p99 %v, worst %v of %d", what, s.at(50), s.at(99), s.at(100), len(s))
	if soaking && s.at(99) > tolerated {
		t.Errorf("%s: more than %v", what, tolerated)
	}
}

// together runs n tests concurrently.
func together(t *testing.T, n int, run func(t *testing.T, i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { t.Run(fmt.Sprint(i), func(t *testing.T) { run(t, i) }) })
	}
	wg.Wait()
}

// When a session is ended, the next in line gets its slot at once.
func TestEndedSessionToGrant(t *testing.T) {
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 3)
	for how := range methods {
		t.Run(how.String(), func(t *testing.T) {
			var took spread
			for range 30 {
				took = append(took, endToGrant(t, peers, how))
			}
			took.report(t, "from the end to the grant", toleratedLate)
		})
	}
	noRemains(t, srv, peers...)
}

// endToGrant ends a session that holds a lock, and returns the time until a session at
// another peer has it.
func endToGrant(t testing.TB, peers []*Store, how method) time.Duration {
	t.Helper()
	dying, next := newSession(t, peers[0], time.Minute), newSession(t, peers[1], time.Minute)
	held := mustHold(t, peers[0], dying, Lock("k"))
	w := arrive(context.Background(), t, peers, 1, next, Lock("k"), how, 1)
	ended := time.Now()
	natstest.Must(t, peers[0].EndSession(t.Context(), dying))
	<-w.done
	took := time.Since(ended)
	if w.err != nil || w.grant.Fence <= held.Fence {
		t.Fatal(w.grant, w.err)
	}
	endAll(t, peers[2], next)
	return took
}

// A session lives while any call at any peer uses it, and ends when it has been idle for
// its idle time.
func TestIdleTime(t *testing.T) {
	besideOthers(t)
	const idle = time.Second
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 3)
	// pinging pings a session at one of the peers after the other.
	pinging := func(times int, every time.Duration, at ...*Store) func(t *testing.T, session string, last time.Time) time.Time {
		return func(t *testing.T, session string, last time.Time) time.Time {
			for i := range times {
				time.Sleep(every)
				pinged := time.Now()
				switch err := at[i%len(at)].Ping(t.Context(), session); {
				case err == nil:
					last = pinged
				case errors.Is(err, ErrSessionGone) && time.Since(last) >= idle: // the machine has paused
					return last
				default:
					t.Error(err)
				}
			}
			return last
		}
	}
	cases := []struct {
		name string
		// use uses a session that was last used after the given time, and returns the
		// earliest time at which its last use may have ended.
		use func(t *testing.T, session string, last time.Time) time.Time
	}{
		{"never used", func(_ *testing.T, _ string, last time.Time) time.Time { return last }},
		{"pinged every half", pinging(10, idle/2, peers[0])},
		{"pinged every half, at one peer after another", pinging(10, idle/2, peers...)},
		{"waiting", func(t *testing.T, session string, _ time.Time) time.Time {
			asked := time.Now()
			_, err := peers[1].Wait(t.Context(), session, Lock("held"), 5*idle)
			wantErr(t, err, ErrNoSlot)
			return asked.Add(5 * idle)
		}},
		{"acquiring", func(t *testing.T, session string, _ time.Time) time.Time {
			asked := time.Now()
			_, err := peers[1].Acquire(t.Context(), session, Lock("held"), WithTTL(time.Minute), WithWait(5*idle))
			wantErr(t, err, ErrNoSlot)
			return asked.Add(5 * idle)
		}},
		{"pinged in the first third only", pinging(5, idle/20, peers[0])},
		{"pinged in the first third only, at one peer after another", pinging(5, idle/20, peers...)},
		{"pinged once, long after the first third", pinging(1, idle*4/5, peers[2])},
	}
	var mu sync.Mutex
	var late spread
	holder := newSession(t, peers[0], time.Minute)
	mustHold(t, peers[0], holder, Lock("held"))
	together(t, len(cases), func(t *testing.T, i int) {
		c := cases[i]
		next := newSession(t, peers[1], time.Minute)
		own := Lock(fmt.Sprint("own", i))
		session, _, used := newIdleHolder(t, peers[0], idle, own)
		_, acquired, err := peers[0].Enqueue(t.Context(), session, Lock("held"), WithTTL(time.Minute))
		for errors.Is(err, ErrSessionGone) { // the machine has paused for the idle time
			session, _, used = newIdleHolder(t, peers[0], idle, own)
			_, acquired, err = peers[0].Enqueue(t.Context(), session, Lock("held"), WithTTL(time.Minute))
		}
		if acquired || err != nil {
			t.Fatal(acquired, err)
		}
		done := make(chan time.Time)
		go func() {
			if _, err := peers[1].Acquire(context.Background(), next, own, WithTTL(time.Minute), WithWait(time.Minute)); err != nil {
				t.Error(err)
			}
			done <- time.Now()
		}()
		used = c.use(t, session, used)
		after := (<-done).Sub(used) - idle
		t.Logf("%s: it died %v after its deadline", c.name, after)
		mu.Lock()
		late = append(late, after)
		mu.Unlock()
		if after < 0 {
			t.Errorf("%s: too early", c.name)
		}
		endAll(t, peers[2], next)
	})
	late.report(t, "from the deadline to the grant", toleratedIdle)
	endAll(t, peers[0], holder)
	noRemains(t, srv, peers...)
}
