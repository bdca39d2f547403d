package bucket

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	heartbeat     = time.Second
	silence       = 2500 * time.Millisecond // after which a watch counts as lost
	checkEvery    = 100 * time.Millisecond  // between two checks of a watch
	answerTimeout = 500 * time.Millisecond  // of a request for the consumer's state

	// minSetup is the timeout of the first attempt to create a watch, doubled after
	// each failure up to maxSetup. It is short because a request to a leader that has
	// just died is lost.
	minSetup = 500 * time.Millisecond
	maxSetup = 8 * time.Second
)

// Hook intercepts the messages of a watch between the connection and the peer. It is for
// tests of slow watches, since no server can be made slow, or to skip entries, at will. It
// may delay a message, or drop one that the server could have skipped. It passes the others
// to next, in order, from one goroutine at a time.
type Hook func(m *nats.Msg, next func(*nats.Msg))

// order is a watch that the peer has ordered. ctx ends when a later order replaces it.
type order struct {
	peer.Watch
	ctx    context.Context
	cancel context.CancelFunc
}

// orderWatch replaces the watch by another one.
func (b *Bucket) orderWatch(w peer.Watch) {
	if b.watch.cancel != nil {
		b.watch.cancel()
	}
	ctx, cancel := context.WithCancel(b.open)
	b.watch = order{w, ctx, cancel}
	b.watches++
	if w.From == 0 {
		b.progress = progress{caughtUp: b.progress.caughtUp}
	}
	select {
	case <-b.orders: // keepWatch has not received it
	default:
	}
	b.orders <- b.watch
}

// keepWatch carries out the peer's orders.
func (b *Bucket) keepWatch() {
	for failures := 0; ; {
		select {
		case <-b.open.Done():
			return
		case o := <-b.orders:
			if b.serveWatch(o, min(maxSetup, minSetup<<min(failures, 8)), failures == 0) {
				failures = 0
			} else {
				failures++
			}
		}
	}
}

// serveWatch creates a watch within limit, and monitors it until it is lost or replaced.
// It returns false if the watch could not be created; warn is the level of that log.
func (b *Bucket) serveWatch(o order, limit time.Duration, warn bool) bool {
	for !b.nc.IsConnected() {
		select {
		case <-o.ctx.Done():
			return true
		case <-b.online:
		}
	}
	w, err := b.createWatch(o, limit)
	if err != nil {
		if o.ctx.Err() == nil {
			level := zerolog.DebugLevel
			if warn {
				level = zerolog.WarnLevel
			}
			b.log.WithLevel(level).Err(err).Msg("watch not created; trying again")
			b.watchLost(o, explain(err))
		}
		return false
	}
	w.monitor()
	_ = w.sub.Unsubscribe()
	b.tasks.Go(w.remove)
	return true
}

// createWatch creates a watch. Meanwhile it gets the entries of a replicated stream
// directly, since any replica answers a direct get.
func (b *Bucket) createWatch(o order, limit time.Duration) (*watch, error) {
	meanwhile, stop := context.WithCancel(o.ctx)
	fetching := make(chan struct{})
	go func() {
		defer close(fetching)
		if b.replicated() && o.From != 0 {
			b.catchUp(meanwhile, o)
		}
	}()
	w, err := b.startWatch(o, limit)
	stop()
	<-fetching
	return w, err
}

// watchLost tells the peer that the watch will deliver nothing more. why is the reason if
// the watch was not created, and otherwise nil.
func (b *Bucket) watchLost(o order, why error) {
	b.input(o.ctx, func(p *peer.Peer, now peer.Instant) {
		b.watchErr = why
		o.cancel()
		p.WatchLost(o.Number, now)
	})
}

// watch is a push consumer on the whole bucket. (jetstream's KV watcher hides the
// headers, and took 20 s to notice a dead server.)
type watch struct {
	b           *Bucket
	order       order
	sub         *nats.Subscription
	consumer    string
	begun       chan struct{} // closed when startWatch returns
	sequence    uint64        // of the last delivery
	lastMessage atomic.Int64  // when the last message came
}

// startWatch creates the consumer, and calls WatchStarted before the first delivery
// is fed to the peer.
func (b *Bucket) startWatch(o order, limit time.Duration) (*watch, error) {
	ctx, cancel := context.WithTimeout(o.ctx, limit)
	defer cancel()
	info, err := b.streamInfo(ctx)
	if err != nil {
		return nil, err
	}
	w := &watch{b: b, order: o, begun: make(chan struct{})}
	defer close(w.begun)
	w.consumer = rand.Text() // not the inbox: the consumer's name is in public advisories
	inbox := newInbox(b.nc)
	if w.sub, err = b.nc.Subscribe(inbox, w.received); err != nil {
		return nil, err
	}
	_ = w.sub.SetPendingLimits(-1, -1) // flow control bounds it
	if _, err = b.stream.CreatePushConsumer(ctx, w.config(inbox)); err != nil {
		_ = w.sub.Unsubscribe()
		return nil, err
	}
	w.noteMessage()
	b.input(o.ctx, func(p *peer.Peer, now peer.Instant) {
		b.watchErr = nil
		p.WatchStarted(o.Number, peer.StreamInfo{Created: info.Created, Now: info.TimeStamp, Last: info.State.LastSeq}, now)
	})
	return w, nil
}

// missingTime is how long the stream must have been missing before the Bucket creates it
// again: a server that enables JetStream for an account at first finds none of its streams.
const missingTime = 3 * time.Second

// streamInfo returns the stream's state. If the stream has been missing for missingTime, and
// no restore has deleted it, streamInfo creates an empty one.
func (b *Bucket) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := b.stream.Info(ctx)
	if err == nil {
		b.missingSince = 0
		return info, CheckSettings(info.Config)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	if b.missingSince == 0 {
		b.missingSince = b.now()
	}
	if b.now().Sub(b.missingSince) < missingTime {
		return nil, cmp.Or(mayCreate(ctx, b.js), err)
	}
	stream, err := openStream(ctx, b.js, b.replicas)
	if err != nil {
		return nil, err
	}
	b.stream, b.missingSince = stream, 0
	info = stream.CachedInfo()
	if info.State.Msgs == 0 { // otherwise another peer or a restore may have created it
		b.log.Warn().Msg("an operator or a program has deleted the bucket, or NATS has lost it; its pools and leases are lost, " +
			"and an empty bucket was created; to get the pools back from a backup: kvslots restore")
	}
	return info, nil
}

func (w *watch) config(inbox string) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Name:              w.consumer,
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       w.order.From,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		FlowControl:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 10 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if w.order.From == 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverAllPolicy, 0
	}
	return cfg
}

func (w *watch) noteMessage() { w.lastMessage.Store(int64(w.b.now())) }

func (w *watch) monitor() {
	for pause(w.order.ctx, checkEvery) {
		if why := w.failure(); why != "" {
			w.lost(why)
		}
	}
}

// failure returns why the watch is lost, or "".
func (w *watch) failure() string {
	if w.b.now().Sub(peer.Instant(w.lastMessage.Load())) > silence {
		return "no heartbeat"
	}
	var late bool
	w.b.Look(func(p *peer.Peer, now peer.Instant) { late = !p.Loading() && w.b.progress.isOverdue(now) })
	if !late {
		return ""
	}
	// Ask whether the server has lost the consumer, rather than wait for heartbeats. While
	// entries arrive, the answer may only be late, behind them.
	heard := w.lastMessage.Load()
	ctx, cancel := context.WithTimeout(w.order.ctx, answerTimeout)
	defer cancel()
	switch _, err := w.b.stream.PushConsumer(ctx, w.consumer); {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return "the consumer is gone"
	case err != nil && w.lastMessage.Load() == heard:
		return "the server of the consumer does not answer"
	}
	return ""
}

func (w *watch) lost(why string) {
	if w.order.ctx.Err() == nil {
		w.b.log.Warn().Str("reason", why).Msg("watch broken")
	}
	w.b.watchLost(w.order, nil)
}

// remove deletes the consumer; otherwise the server does so when it is inactive.
func (w *watch) remove() {
	if !w.b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat)
	defer cancel()
	_ = w.b.js.DeleteConsumer(ctx, StreamName, w.consumer)
}

func (w *watch) received(m *nats.Msg) {
	<-w.begun
	w.noteMessage()
	if m.Header.Get("Status") == "100" {
		w.control(m)
		return
	}
	w.sequence++
	switch d, ok := parseDelivery(m.Reply); {
	case !ok:
		w.lost("a delivery without a sequence number")
	case d.consumer != w.sequence:
		w.lost(fmt.Sprintf("delivery %d came after %d", d.consumer, w.sequence-1))
	case w.b.hook == nil:
		w.deliver(m, d)
	default:
		w.b.hook(m, func(m *nats.Msg) {
			d, _ := parseDelivery(m.Reply)
			w.deliver(m, d)
		})
	}
}

// control handles a heartbeat or a flow control request.
func (w *watch) control(m *nats.Msg) {
	if m.Reply != "" {
		_ = m.Respond(nil)
	} else if stalled := m.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		_ = w.b.nc.Publish(stalled, nil)
	}
	last := m.Header.Get("Nats-Last-Consumer")
	switch last {
	case "":
	case strconv.FormatUint(w.sequence, 10):
		w.b.input(w.order.ctx, func(_ *peer.Peer, now peer.Instant) { w.b.progress.noteCaughtUp(now) })
	default:
		w.lost(fmt.Sprintf("delivery %s is missing", last))
	}
}

// deliver feeds one delivered entry to the peer. The entry need not be parsed if the peer
// wrote it, and applied it when it was acknowledged.
func (w *watch) deliver(m *nats.Msg, d delivery) {
	b := w.b
	key := strings.TrimPrefix(m.Subject, SubjectPrefix)
	var corrupt error
	b.input(w.order.ctx, func(p *peer.Peer, now peer.Instant) {
		b.progress.delivered(d.stream, d.pending, now)
		if p.Delivered(w.order.Number, d.stream, entry.ParseKey(key), d.at, now) {
			return
		}
		e := entry.Parse(key, d.stream, d.at, m.Header.Get, m.Data)
		if e.Corrupt != nil && b.ignore(key) {
			corrupt = e.Corrupt
		}
		p.Apply(w.order.Number, e, now)
	})
	if corrupt != nil {
		b.log.Warn().Stringer("key_hash", entry.HashOf("key", key)).Str("reason", corrupt.Error()).
			Msg("foreign or corrupt entry in the bucket ignored")
	}
}
