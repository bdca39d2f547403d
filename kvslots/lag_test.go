package kvslots

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// open is Open with a hook on the watch.
func open(ctx context.Context, nc *nats.Conn, cfg Config, hook bucket.Hook) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := bucket.Open(ctx, nc, bucket.Config{Replicas: cfg.Replicas, Peer: cfg.peer(), Logger: cfg.Logger, Hook: hook})
	return &Store{cfg, b}, err
}

// breakWatch makes a peer begin another watch. A peer uses at most two numbers a watch, and
// ignores the loss of all watches but the present one.
func breakWatch(s *Store) {
	most := 2*s.Metrics().Watches + 2
	s.bucket.Look(func(p *peer.Peer, now peer.Instant) {
		for number := most; number > 0; number-- {
			p.WatchLost(number, now)
		}
	})
}

// lag delays a watch by random times. It drops entries that were overwritten in that
// time, as the server does for a stream with history 1.
type lag struct {
	mu   sync.Mutex
	rand *rand.Rand
	next func(*nats.Msg)
	sub  *nats.Subscription
	held []*nats.Msg
	busy bool
}

func (l *lag) hook(m *nats.Msg, next func(*nats.Msg)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Sub != l.sub { // another watch, which delivers again the entries that the view lacks
		l.sub, l.held = m.Sub, nil
	}
	l.next = next
	l.held = append(l.held, m)
	if l.busy {
		return
	}
	l.busy = true
	hold := time.Duration(0)
	if l.rand.IntN(4) == 0 {
		hold = time.Duration(l.rand.IntN(60_000)) * time.Microsecond
	}
	time.AfterFunc(hold, l.release)
}

func (l *lag) release() {
	for {
		l.mu.Lock()
		held, next := l.held, l.next
		l.held = nil
		if len(held) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		last := map[string]int{}
		for i, m := range held {
			last[m.Subject] = i
		}
		for i, m := range held {
			if last[m.Subject] == i {
				next(m)
			}
		}
	}
}

// lagBehind makes the views of all peers but the first lag.
func lagBehind(peer int, r *rand.Rand) bucket.Hook {
	if peer == 0 {
		return nil
	}
	return (&lag{rand: r}).hook
}

// breakWatches breaks the watches of random peers at random times.
func breakWatches(ctx context.Context, stores []*Store, r *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(300+r.IntN(700)) * time.Millisecond):
		}
		breakWatch(stores[r.IntN(len(stores))])
	}
}

// Peers whose watch is delayed, skips entries and breaks at random are still a correct
// semaphore.
func TestLaggingViews(t *testing.T) {
	runHistory(t, setting{
		peers: 3, clients: 30, pools: 30, hook: lagBehind, disturb: breakWatches, length: *historyTime, seed: *historySeed,
	})
}
