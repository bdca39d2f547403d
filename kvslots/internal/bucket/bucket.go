package bucket

import (
	"cmp"
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	closeTimeout = 5 * time.Second       // for the peer's pending writes at Close
	loadRetry    = 10 * time.Millisecond // between two requests of load
	minSleep     = 100 * time.Microsecond
)

type Config struct {
	Replicas int         // of the stream, when Open has to create it
	Peer     peer.Config // Open sets Replicated and Random
	Logger   *slog.Logger
	Hook     Hook // of the feed; may be nil

	// Events is called with what has changed, in order, under the lock. It may be nil.
	Events func([]peer.Event)

	// Durable calls then when every write that was acknowledged before is durable, or
	// with an error. If it is nil, a write is durable when it is acknowledged.
	Durable func(then func(error))
}

// Bucket is one peer's access to the bucket.
type Bucket struct {
	nc           *nats.Conn
	js           jetstream.JetStream
	stream       jetstream.Stream // used by Open and then by keepReadings
	missingSince peer.Instant     // since when the stream has not been found; 0: it was found
	replicas     int              // of the stream; used like stream
	id           atomic.Pointer[string]
	noFetch      bool // nothing has answered the latest fetch; used like stream
	sole         bool // no other peer is alive
	log          *slog.Logger
	hook         Hook
	durable      func(then func(error)) // may be nil
	events       func([]peer.Event)     // may be nil
	origin       time.Time              // of peer.Instant
	feed         *feed
	sender       *sender
	orders       chan *order     // for keepReadings; holds the latest one only
	online       chan struct{}   // for serve: the connection is back
	open         context.Context // ends when the Bucket stops feeding the peer
	stop         context.CancelFunc
	tasks        sync.WaitGroup

	mu sync.Mutex
	guarded
}

type guarded struct {
	peer     *peer.Peer
	calls    map[uint64]*call
	order    *order // the latest
	progress progress
	ignored  map[string]struct{} // keys of foreign entries that were logged
	foreign  uint64              // foreign and corrupt entries delivered
	readings uint64              // readings ordered
	readErr  error               // why the latest reading could not be created, or nil
	copies   int                 // of the stream, as of the latest reading
	heard
	timer     *time.Timer
	wakesAt   peer.Instant // when the timer fires; 0: it does not
	connected bool
	idle      context.CancelFunc // set by Close, called when the peer is idle
}

// Open opens the bucket, or creates it, and starts a peer on it. It returns when
// the peer's view is loaded. Only ctx limits how long that takes.
//
// It returns ErrServerTooOld, ErrWrongBucket, or peer.ErrUnavailable wrapped
// together with the cause of ctx's end.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Bucket, error) {
	js, err := JetStream(nc)
	if err != nil {
		return nil, err
	}
	stream, err := openStream(ctx, js, cfg.Replicas)
	if err != nil {
		return nil, err
	}
	b := newBucket(nc, js, stream, cfg)
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	if err := b.load(ctx); err != nil {
		b.Close(ctx)
		return nil, err
	}
	return b, nil
}

func newBucket(nc *nats.Conn, js jetstream.JetStream, stream jetstream.Stream, cfg Config) *Bucket {
	b := &Bucket{
		nc: nc, js: js, stream: stream, replicas: stream.CachedInfo().Config.Replicas,
		sole: cfg.Peer.Sole, log: cfg.Logger, hook: cfg.Hook, durable: cfg.Durable, events: cfg.Events, origin: time.Now(),
		orders: make(chan *order, 1),
		online: make(chan struct{}, 1),
	}
	b.id.Store(new(stream.CachedInfo().Config.Metadata[IDKey]))
	b.open, b.stop = context.WithCancel(context.Background())
	b.calls, b.ignored = map[uint64]*call{}, map[string]struct{}{}
	b.sender = newSender(nc)
	b.feed = newFeed(b)
	var seed [32]byte
	_, _ = crypto.Read(seed[:])
	cfg.Peer.Random = rand.NewChaCha8(seed)
	cfg.Peer.Replicated = b.replicas > 1
	b.peer = peer.New(cfg.Peer, b.now())
	b.timer = time.AfterFunc(time.Hour, b.tick)
	return b
}

func (b *Bucket) start(ctx context.Context) (err error) {
	if b.feed.acks, err = b.nc.ChanSubscribe(b.sender.prefix+"*", b.feed.wire); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxSetup)
	defer cancel()
	switch err = b.feed.subscribe(ctx, feedSubject(b.stream.CachedInfo().Config)); {
	case errors.Is(err, errFeedDenied):
		_ = b.feed.acks.Unsubscribe()
		b.stop()
		return fmt.Errorf("%w: bucket %s: %w", peer.ErrUnavailable, Name, err)
	case err != nil:
		b.log.Debug("the feed is subscribed to later", "error", err)
	}
	statuses := b.nc.StatusChanged()
	b.connected = b.nc.IsConnected() // no other goroutine uses b yet
	b.tasks.Go(func() { b.feed.run(b.open.Done()) })
	b.tasks.Go(func() { b.sender.run(b.open.Done()) })
	b.tasks.Go(b.keepReadings)
	b.tasks.Go(func() { b.keepConnection(statuses) })
	b.tasks.Go(b.keepSubscriptions)
	b.tasks.Go(b.keepServer)
	return nil
}

// load blocks until the view is loaded and a write has been stored and flushed, or ctx ends: a read
// is answered when its peer's own entry has come back. A read may time out before that, so load repeats it.
func (b *Bucket) load(ctx context.Context) error {
	for {
		_, err := b.Do(ctx, peer.ReadPool{})
		switch {
		case errors.Is(err, peer.ErrNoPool):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the view was not loaded: %w", peer.ErrUnavailable, errors.Join(b.obstacle(), context.Cause(ctx)))
		case !errors.Is(err, peer.ErrUnavailable):
			return err
		}
		clock.Sleep(ctx, loadRetry)
	}
}

func (b *Bucket) now() peer.Instant { return peer.Instant(time.Since(b.origin)) }

// Time returns an Instant as a time.Time with a monotonic reading.
func (b *Bucket) Time(at peer.Instant) time.Time { return b.origin.Add(time.Duration(at)) }

// status returns nil if the peer can serve callers, as far as it knows, and otherwise
// why it cannot. If the server does not answer, status returns that rather than what the
// peer waits for.
func (b *Bucket) status() (err error) {
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		switch err = p.Status(now); {
		case err == nil, errors.Is(err, peer.ErrClosed):
		default:
			err = cmp.Or(b.obstacleAt(now), err)
		}
	})
	if err != nil && !errors.Is(err, peer.ErrClosed) && !b.nc.IsConnected() {
		return errDisconnected // the cause of every other error
	}
	return err
}

// obstacle returns why the server does not answer the peer or deliver to it, if that is known,
// and otherwise nil.
func (b *Bucket) obstacle() (err error) {
	b.WithPeer(func(_ *peer.Peer, now peer.Instant) { err = b.obstacleAt(now) })
	return err
}

func (g *guarded) obstacleAt(now peer.Instant) error {
	switch {
	case g.readErr != nil:
		return g.readErr
	case g.isUnacked(readyTimeout, now):
		return errStale
	case g.isUnfed(readyTimeout, now):
		return errUnfed
	}
	return nil
}

func (b *Bucket) WithPeer(f func(p *peer.Peer, now peer.Instant)) { b.input(context.Background(), f) }

// input feeds the peer, unless ctx has ended, and then carries out its Ready.
func (b *Bucket) input(ctx context.Context, feed func(p *peer.Peer, now peer.Instant)) {
	defer b.crash()
	b.mu.Lock()
	if ctx.Err() == nil {
		feed(b.peer, b.now())
	}
	flushing, logs := b.settle()
	b.mu.Unlock()
	if len(flushing) > 0 {
		b.flush(flushing)
	}
	for _, l := range logs {
		b.writeLog(l)
	}
}

// settle carries out the peer's Ready after an input. It returns what input does without
// the lock: calls that wait for a flush, and logs.
func (b *Bucket) settle() (flushing []*call, logs []peer.Log) {
	r := b.peer.Ready()
	if len(r.Writes) > 0 {
		b.sender.put(r.Writes)
		if b.unacked == 0 || b.unled == 0 {
			b.wrote(b.now())
		}
	}
	if r.Joined != 0 {
		b.join(r.Joined)
	}
	if r.Reading != nil {
		b.orderReading(*r.Reading)
	}
	if len(r.Events) > 0 && b.events != nil {
		b.events(r.Events)
	}
	flushing = b.answer(r.Answers)
	b.sleepUntil(r.WakeAt)
	if b.idle != nil && (!b.connected || b.peer.Idle()) {
		b.idle()
	}
	return flushing, slices.Clone(r.Logs)
}

// sleepUntil makes the timer call tick at an instant, or earlier. A call that is too
// early does no harm, so the timer is never moved to a later time.
func (b *Bucket) sleepUntil(at peer.Instant) {
	if at == 0 || b.open.Err() != nil || (b.wakesAt != 0 && b.wakesAt <= at) {
		return
	}
	b.wakesAt = at
	b.timer.Reset(max(minSleep, time.Duration(at-b.now())))
}

func (b *Bucket) tick() {
	b.input(b.open, func(p *peer.Peer, now peer.Instant) {
		b.wakesAt = 0
		p.Tick(now)
	})
}

func (b *Bucket) writeLog(l peer.Log) {
	ctx, level := context.Background(), slog.LevelDebug
	if l.Level == peer.Warn {
		level = slog.LevelWarn
	}
	if !b.log.Enabled(ctx, level) {
		return
	}
	var attrs []slog.Attr
	if l.Reason != "" {
		attrs = append(attrs, slog.String("reason", l.Reason))
	}
	b.log.LogAttrs(ctx, level, l.Message, attrs...)
}

// Close ends every call with peer.ErrClosed, waits until the peer is idle, and joins
// the goroutines. It waits for closeTimeout at most, and less if ctx ends or the
// connection is lost.
func (b *Bucket) Close(ctx context.Context) {
	ctx, idle := context.WithTimeout(ctx, closeTimeout)
	defer idle()
	first := false
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		if first = b.idle == nil; first {
			b.idle = idle
			p.Close(now)
		}
	})
	if !first {
		return
	}
	<-ctx.Done()
	b.WithPeer(func(*peer.Peer, peer.Instant) {
		b.stop()
		b.timer.Stop()
	})
	_ = b.feed.acks.Unsubscribe()
	b.tasks.Wait()
	b.feed.unsubscribe()
}
