package kvslots

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func containsText(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// However many borrowers wait, each free slot costs one claim.
func TestNoHerd(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 3)
	pool := newPool(t, peers[0], 1)
	l := mustBorrow(t, peers[0], pool)
	const waiters = 1000
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := peers[i%3].Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			mustReturn(t, peers[i%3], pool, l)
		})
	}
	eventually(t, "all wait", func() bool {
		state, err := peers[0].Inspect(t.Context(), pool)
		return err == nil && state.Waiting == waiters
	})
	before := claims(peers)
	mustReturn(t, peers[0], pool, l)
	wg.Wait()
	ratio := float64(claims(peers)-before) / waiters
	t.Logf("%.3f claims per grant", ratio)
	if ratio > 1.05 {
		t.Errorf("%.3f claims per grant, more than 1.05", ratio)
	}
}

func claims(peers []*Store) uint64 {
	var n uint64
	for _, s := range peers {
		n += counters(s).Claims
	}
	return n
}

// A dead or paused peer does not delay the line for long, and its waiting borrowers keep
// their places if it comes back.
func TestStalledPeer(t *testing.T) {
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 2)
	nc := srv.Connect()
	gone := openPeer(t, nc, Config{})
	pool := newPool(t, peers[0], 1)
	l := mustBorrow(t, peers[0], pool)
	dead := make(chan error, 50)
	for range cap(dead) {
		go func() {
			_, err := gone.Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
			dead <- err
		}()
	}
	waitFor := func(n int) {
		t.Helper()
		eventually(t, "they wait", func() bool {
			state, err := peers[0].Inspect(t.Context(), pool)
			return err == nil && state.Waiting == n
		})
	}
	waitFor(cap(dead))
	done := make(chan *Lease)
	go func() {
		l, err := peers[1].Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
		if err != nil {
			t.Error(err)
		}
		done <- l
	}()
	waitFor(cap(dead) + 1)
	nc.Close()
	began := time.Now()
	mustReturn(t, peers[0], pool, l)
	l = <-done
	t.Logf("passed over %d tickets of a dead peer in %s", cap(dead), time.Since(began).Round(time.Millisecond))
	mustReturn(t, peers[1], pool, l)
	if l := mustBorrow(t, peers[0], pool); l.Position() != 0 {
		t.Fatalf("position %d", l.Position())
	}
	_ = gone.Close(context.Background())
	for range cap(dead) {
		wantErr(t, <-dead, ErrClosed)
	}
}
