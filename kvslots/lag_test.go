package kvslots

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/access"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// open is Open with a hook on the feed.
func open(ctx context.Context, nc *nats.Conn, cfg Config, hook bucket.Hook) (*Store, error) {
	return NewStore(cfg, func(cfg Config, peer peer.Config, events func([]peer.Event)) (access.Bucket, error) {
		return bucket.Open(ctx, nc, bucket.Config{
			Replicas: cfg.Replicas, Peer: peer, Logger: cfg.Logger, Durable: cfg.Durable, Events: events, Hook: hook,
		})
	})
}

// Open is natsstore.Open, which tests of this package cannot import.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Store, error) {
	return open(ctx, nc, cfg, nil)
}

// breakFeed makes a peer catch up. A peer uses at most two numbers a reading, and ignores the
// loss of all readings but the present one.
func breakFeed(s *Store) {
	most := 2*s.Metrics().Readings + 2
	s.bucket.WithPeer(func(p *peer.Peer, now peer.Instant) {
		for number := most; number > 0; number-- {
			p.ReadingLost(number, now)
		}
	})
}

// lag delays a feed by random times, and loses one message in lossEvery.
type lag struct {
	mu   sync.Mutex
	rand *rand.Rand
	next func(*nats.Msg)
	held []*nats.Msg
	busy bool
}

const lossEvery = 2000

func (l *lag) hook(m *nats.Msg, next func(*nats.Msg)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
	if l.rand.IntN(lossEvery) > 0 {
		l.held = append(l.held, m)
	}
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
		for _, m := range held {
			next(m)
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

// breakFeeds interrupts the feeds of random peers at random times.
func breakFeeds(ctx context.Context, stores []*Store, r *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(300+r.IntN(700)) * time.Millisecond):
		}
		breakFeed(stores[r.IntN(len(stores))])
	}
}

// Peers whose feed is delayed, loses entries and breaks at random are still a correct
// semaphore.
func TestLaggingViews(t *testing.T) {
	besideOthers(t)
	runHistory(t, setting{
		peers: 3, clients: 30, pools: 30, hook: lagBehind, disturb: breakFeeds, length: *historyTime, seed: *historySeed,
	})
}
