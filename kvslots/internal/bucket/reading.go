package bucket

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	heartbeat  = time.Second
	silence    = 2500 * time.Millisecond // after which a reading counts as lost
	checkEvery = 100 * time.Millisecond  // between two checks of a reading
	unfedTime  = time.Second             // without an entry of the feed, although a write was written, after which it is subscribed to again
)

// reading delivers what the stream holds, from the order's sequence on, until the peer has
// joined it with the feed: by a push consumer, or by a fetch if that is short. (jetstream's KV
// watcher hides the headers, and took 20 s to notice a dead server.)
type reading struct {
	b           *Bucket
	order       *order
	inbox       string
	sub         *nats.Subscription
	consumer    string
	fetch       *fetch        // nil: a consumer reads
	begun       chan struct{} // closed when createReading returns
	sequence    uint64        // of the last delivery
	lastMessage atomic.Int64  // when the last message came
}

// createReading creates the consumer within limit, if there is to be one, and calls ReadingStarted before the first
// delivery is fed to the peer. The feed is subscribed to before that.
func (b *Bucket) createReading(o *order, limit time.Duration) (*reading, error) {
	ctx, cancel := context.WithTimeout(o.ctx, limit)
	defer cancel()
	info, err := b.streamInfo(ctx, limit/infoShare)
	if err != nil {
		return nil, err
	}
	if b.missesFeed(0) {
		b.feed.heard.Store(false)
	}
	if err = b.feed.subscribe(ctx, feedSubject(info.Config)); err != nil {
		return nil, err
	}
	r := &reading{b: b, order: o, begun: make(chan struct{})}
	defer close(r.begun)
	r.inbox = newInbox(b.nc)
	if last := info.State.LastSeq; o.From > 0 && last < o.From+maxFetched && !b.noFetch {
		r.fetch = &fetch{r: r, last: last, next: o.From, asked: o.From}
		r.sub, err = b.nc.SubscribeSync(r.inbox + ".*")
	} else {
		b.noFetch = false
		err = r.consume(ctx)
	}
	if err != nil {
		return nil, err
	}
	b.input(o.ctx, func(p *peer.Peer, now peer.Instant) {
		b.readErr, b.failing, b.unfed, b.copies = nil, 0, 0, info.Config.Replicas
		p.ReadingStarted(o.Number, peer.StreamInfo{
			Created: info.Created, Now: info.TimeStamp, Last: info.State.LastSeq, Replicas: info.Config.Replicas,
		}, now)
	})
	return r, nil
}

// consume creates the consumer.
func (r *reading) consume(ctx context.Context) (err error) {
	r.consumer = rand.Text() // not the inbox: the consumer's name is in public advisories
	if r.sub, err = r.b.nc.Subscribe(r.inbox, r.received); err != nil {
		return err
	}
	_ = r.sub.SetPendingLimits(-1, -1) // flow control bounds it
	if _, err = r.b.stream.CreatePushConsumer(ctx, r.config()); err != nil {
		_ = r.sub.Unsubscribe()
	}
	r.noteMessage()
	return err
}

func (r *reading) config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Name:              r.consumer,
		DeliverSubject:    r.inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.order.From,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		FlowControl:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 10 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if r.order.From == 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverAllPolicy, 0
	}
	return cfg
}

func (r *reading) noteMessage() { r.lastMessage.Store(int64(r.b.now())) }

// monitor blocks until the reading is over.
func (r *reading) monitor() {
	if r.fetch != nil {
		r.fetch.run()
		return
	}
	for clock.Sleep(r.order.ctx, checkEvery) {
		if r.b.now().Sub(peer.Instant(r.lastMessage.Load())) > silence {
			r.lost("no heartbeat")
		}
		if r.b.missesFeed(unfedTime) {
			r.lost("the feed delivers nothing")
		}
	}
}

func (r *reading) lost(why string) {
	r.b.input(r.order.ctx, func(_ *peer.Peer, now peer.Instant) {
		r.b.log.Warn("reading of the bucket broken", "reason", why)
		r.b.interrupt(now)
	})
}

// remove deletes the consumer; otherwise the server does so when it is inactive.
func (r *reading) remove() {
	if r.fetch != nil || !r.b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat)
	defer cancel()
	_ = r.b.js.DeleteConsumer(ctx, StreamName, r.consumer)
}

func (r *reading) received(m *nats.Msg) {
	<-r.begun
	r.noteMessage()
	if m.Header.Get("Status") == "100" {
		r.control(m)
		return
	}
	r.sequence++
	switch d, ok := parseDelivery(m.Reply); {
	case !ok:
		r.lost("a delivery without a sequence number")
	case d.consumer != r.sequence:
		r.lost(fmt.Sprintf("delivery %d came after %d", d.consumer, r.sequence-1))
	case r.b.readHook == nil:
		r.deliver(m, d)
	default:
		r.b.readHook(m, func(m *nats.Msg) {
			d, _ := parseDelivery(m.Reply)
			r.deliver(m, d)
		})
	}
}

// control handles a heartbeat or a flow control request.
func (r *reading) control(m *nats.Msg) {
	if m.Reply != "" {
		_ = m.Respond(nil)
	} else if stalled := m.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		_ = r.b.nc.Publish(stalled, nil)
	}
	if last := m.Header.Get("Nats-Last-Consumer"); last != "" && last != strconv.FormatUint(r.sequence, 10) {
		r.lost(fmt.Sprintf("delivery %s is missing", last))
	}
}

// deliver feeds one delivered entry to the peer.
func (r *reading) deliver(m *nats.Msg, d delivery) {
	b := r.b
	key := strings.TrimPrefix(m.Subject, SubjectPrefix)
	e := entry.Parse(key, d.stream, d.at, m.Header.Get, m.Data)
	log := false
	b.input(r.order.ctx, func(p *peer.Peer, now peer.Instant) {
		log = e.Corrupt != nil && b.ignore(key)
		b.progress.note(d.stream + d.pending)
		p.Read(r.order.Number, e, now)
	})
	if log {
		b.logIgnored(key, e.Corrupt)
	}
}
