package kvslots

import (
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var stormRounds = flag.Int("storm", 4, "rounds of the boundary storm")

// Of renewals that arrive around the deadline, an acknowledged one is never lost, and a
// lease that has ended is never renewed.
func TestBoundaryStorm(t *testing.T) {
	besideOthers(t)
	peers := openPeers(t, natstest.Start(t, ""), 3)
	pool := newPool(t, peers[0], 300)
	var renewed, refused, unknown int
	var mu sync.Mutex
	for round := range inSoak(*stormRounds, 20) {
		r := rand.New(rand.NewPCG(*historySeed, uint64(round)))
		var wg sync.WaitGroup
		for i := range 300 {
			granting, renewing := peers[i%3], peers[(i+r.IntN(2))%3]
			slack := time.Duration(0) // how long after its end a lease can still be renewed
			if renewing != granting {
				slack = time.Duration(rules.Slack)
			}
			jitter := time.Duration(r.IntN(60_000)-30_000) * time.Microsecond
			l, err := granting.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
			natstest.Must(t, err)
			wg.Go(func() {
				time.Sleep(time.Until(l.ExpiresAt()) + jitter)
				asked := time.Now()
				again, err := renewing.Renew(t.Context(), pool, l.ID(), 2*time.Second)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, ErrNotHeld):
					refused++
				case errors.Is(err, ErrUnavailable): // the machine was too busy for an answer
					unknown++
				case err != nil:
					t.Error(err)
				default:
					renewed++
					if late := asked.Sub(l.ExpiresAt()); late > slack {
						t.Errorf("renewed %s after its end", late)
					}
					kept(t, peers[i%3], pool, l, again)
				}
			})
		}
		wg.Wait()
		eventually(t, "all have ended", func() bool {
			state, err := peers[0].Inspect(t.Context(), pool)
			return err == nil && state.InUse == 0
		})
	}
	t.Logf("seed %d: %d renewed, %d refused, %d without an answer", *historySeed, renewed, refused, unknown)
}

// kept returns a renewed lease, which must still be held if it has time left.
func kept(t *testing.T, s *Store, pool uuid.UUID, l, again *Lease) {
	t.Helper()
	if again.Fence() != l.Fence() || again.Position() != l.Position() || again.ID() != l.ID() {
		t.Errorf("the renewed lease is another: %d %d", again.Fence(), again.Position())
	}
	ok, err := s.Return(t.Context(), pool, l.ID())
	if err != nil {
		t.Error(err)
	} else if !ok && time.Now().Before(again.ExpiresAt()) {
		t.Error("an acknowledged renewal was lost")
	}
}

// The peer that granted a lease ends it at its time; if that peer is dead, another one
// ends it a second later.
func TestExpiry(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 2)
	pool := newPool(t, peers[0], 1)
	l, err := peers[0].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
	natstest.Must(t, err)
	next, err := peers[1].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))
	natstest.Must(t, err)
	if early := time.Until(l.ExpiresAt()); early > 0 {
		t.Errorf("the next was granted %s before the end", early)
	}
	_ = peers[1].Close(t.Context()) // it granted the second lease
	third, err := peers[0].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))
	natstest.Must(t, err)
	if early := time.Until(next.ExpiresAt()); early > 0 {
		t.Errorf("the third was granted %s before the end", early)
	}
	if third.Fence() <= next.Fence() || next.Fence() <= l.Fence() {
		t.Errorf("fences %d, %d, %d", l.Fence(), next.Fence(), third.Fence())
	}
}

// BenchmarkExpiryToGrant reports the time from the end of a lease to the grant of its
// slot to the next in line.
func BenchmarkExpiryToGrant(b *testing.B) {
	peers := openPeers(b, natstest.Start(b, ""), 3)
	var mu sync.Mutex
	var late []time.Duration
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range b.N {
		pool := newPool(b, peers[0], 1)
		holder, waiter := peers[i%3], peers[(i+1)%3]
		wg.Go(func() {
			l, err := holder.Borrow(b.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := waiter.Borrow(b.Context(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute)); err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			late = append(late, time.Since(l.ExpiresAt()))
		})
		if i%50 == 49 {
			wg.Wait()
		}
	}
	wg.Wait()
	slices.Sort(late)
	if len(late) > 0 {
		b.ReportMetric(float64(late[len(late)/2].Microseconds())/1e3, "p50-ms")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1e3, "p99-ms")
	}
}
