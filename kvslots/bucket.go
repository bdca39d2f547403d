package kvslots

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// bucket is one peer's hold on one bucket: its view, and what it is doing there.
//
// One lock guards it all. The view's goroutine applies entries under it and
// then takes every borrower of the pools that changed as far as it can go (see
// advance); the callers' goroutines only wait for the outcome. Writes are sent
// under the lock as well, so that they reach the stream in the order in which
// they were decided.
type bucket struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	writes *publisher
	log    zerolog.Logger
	cfg    Config
	origin time.Time // of rules.Instant
	hook   hook

	mu       sync.Mutex
	world    *rules.World
	lives    lives
	created  time.Time // of the stream: another time is another stream
	loaded   bool      // the view has seen all that was there when it began
	watch    *watch
	self     presence
	locals   map[entry.Hash]*local
	claiming map[*local]struct{} // those with claims under way
	idle     map[*local]struct{} // kept only for the names of their tickets
	dirty    map[entry.Hash]struct{}
	inexact  map[entry.Hash]struct{} // pools in which somebody waits for an exact view
	captures map[entry.Hash][]*capture
	watched  map[entry.Hash]map[*Lease]entry.Hash // leases whose end somebody wants to know
	asked    []*question                          // in want of a barrier
	open     []*question                          // a barrier has been sent for them
	needed   bool                                 // somebody needs an exact view
	doubts   map[string]struct{}                  // keys of foreign entries that were logged
	sessions map[entry.Hash]*localSession         // the client sessions that this peer has to do with
	awaits   map[entry.Hash]map[*await]struct{}   // those who wait for what was enqueued, by pool
	creating map[entry.Hash]entry.Hash            // origins of the sessions that are being created
	orphans  map[entry.Hash]struct{}              // leases of claims whose fate is not known
	wakesAt  rules.Instant                        // when keepTime looks again
	releases int                                  // purges under way that nobody waits for
	closing  bool
	closed   chan struct{}

	wakeBarrier  chan struct{}
	wakeWatch    chan struct{}
	wakeClock    chan struct{}
	wakePresence chan struct{}
	tasks        sync.WaitGroup
	stats        stats
}

// stats counts what tests and metrics want to know.
type stats struct {
	claims, voids, barriers, skips, rebuilds uint64
}

func openBucket(ctx context.Context, nc *nats.Conn, cfg Config, hook hook) (*bucket, error) {
	if err := checkServer(nc); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := openStream(ctx, js, cfg.Replicas)
	if err != nil {
		return nil, err
	}
	b := &bucket{
		nc: nc, js: js, stream: stream, log: cfg.Logger, cfg: cfg, origin: time.Now(), hook: hook,
		world:        rules.New(),
		created:      stream.CachedInfo().Created,
		locals:       map[entry.Hash]*local{},
		claiming:     map[*local]struct{}{},
		idle:         map[*local]struct{}{},
		dirty:        map[entry.Hash]struct{}{},
		inexact:      map[entry.Hash]struct{}{},
		doubts:       map[string]struct{}{},
		closed:       make(chan struct{}),
		orphans:      map[entry.Hash]struct{}{},
		sessions:     map[entry.Hash]*localSession{},
		awaits:       map[entry.Hash]map[*await]struct{}{},
		creating:     map[entry.Hash]entry.Hash{},
		captures:     map[entry.Hash][]*capture{},
		watched:      map[entry.Hash]map[*Lease]entry.Hash{},
		wakeBarrier:  make(chan struct{}, 1),
		wakeWatch:    make(chan struct{}, 1),
		wakeClock:    make(chan struct{}, 1),
		wakePresence: make(chan struct{}, 1),
	}
	if b.writes, err = newPublisher(nc); err != nil {
		return nil, err
	}
	for _, task := range []func(){b.keepWatch, b.keepTime, b.keepExact, b.keepPresence} {
		b.tasks.Go(task)
	}
	if err := b.ask(ctx, func() bool { return true }); err != nil {
		b.close(ctx)
		return nil, err
	}
	return b, nil
}

// now reads the monotonic clock.
func (b *bucket) now() rules.Instant { return rules.Instant(time.Since(b.origin)) }

// send writes one record; done is called once, without the lock. If the
// stream answers with a sequence that the view had reached before the write was
// sent, it has gone back, and the view is of another stream.
func (b *bucket) send(r *record, done func(ack)) {
	b.lives.settle(r, b.world, b.self.id)
	stood, world := b.world.Revision, b.world
	b.writes.send(r.Msg, func(a ack) {
		if a.err == nil && a.revision <= stood {
			b.mu.Lock()
			if b.world == world {
				b.rebuild("the stream went back")
			}
			b.mu.Unlock()
		}
		done(a)
	})
}

// close lets go of everything: the callers get ErrClosed, the tickets and the
// presence are purged, the goroutines joined.
func (b *bucket) close(ctx context.Context) {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return
	}
	b.closing = true
	for _, lp := range b.locals {
		for _, op := range lp.all() {
			if !op.over {
				b.finish(lp, op, nil, ErrClosed)
			}
		}
	}
	for _, q := range append(b.asked, b.open...) {
		q.answer(ErrClosed)
	}
	b.asked, b.open = nil, nil
	b.forgetSessions()
	b.mu.Unlock()

	b.leave(ctx)
	close(b.closed)
	b.writes.close()
	b.tasks.Wait()
}

// leave waits until what was purged is gone, and takes the presence away.
func (b *bucket) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for b.underway() > 0 && b.nc.IsConnected() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
	done := make(chan ack, 1)
	b.mu.Lock()
	if b.self.revision != 0 && b.nc.IsConnected() {
		b.send(purge(b.self.key(), b.self.revision, 0), func(a ack) { done <- a })
	} else {
		done <- ack{}
	}
	b.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (b *bucket) underway() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.releases
	for _, lp := range b.locals {
		n += len(lp.flight.Claims) + len(lp.joining)
	}
	return n
}

// poke wakes a task that sleeps on c.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// randomHash is an id that nobody can guess.
func randomHash() (h entry.Hash) {
	_, _ = rand.Read(h[:])
	return h
}

// randomIncarnation is never 0, and fits in the 53 bits of a JSON number.
func randomIncarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])>>11 | 1
}
