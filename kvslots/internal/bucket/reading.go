package bucket

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	heartbeat  = time.Second
	checkEvery = 100 * time.Millisecond // between two checks of a reading
	unfedTime  = time.Second            // without an entry of the feed, although a write was written, after which it is subscribed to again
)

// reading delivers what the stream holds, from the order's sequence on, until the peer has
// joined it with the feed: by a push consumer, or by a fetch if that is short. (jetstream's KV
// watcher hides the headers, and took 20 s to notice a dead server.)
type reading struct {
	b        *Bucket
	order    *order
	consumer jetstream.PushConsumer
	fetch    *fetch // nil: the consumer reads
	sequence uint64 // of the consumer's last delivery
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
	r := &reading{b: b, order: o}
	if last := info.State.LastSeq; o.From > 0 && last < o.From+maxFetched && !b.noFetch {
		r.fetch, err = newFetch(r, last)
	} else {
		b.noFetch = false
		r.consumer, err = b.stream.CreatePushConsumer(ctx, r.config())
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

func (r *reading) config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Name:              rand.Text(), // not the inbox: it is in public advisories
		DeliverSubject:    newInbox(r.b.nc),
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

func (r *reading) run() {
	if r.fetch != nil {
		r.fetch.run()
		return
	}
	broken := func(_ jetstream.ConsumeContext, err error) { r.lost(err.Error()) }
	consuming, err := r.consumer.Consume(r.received, jetstream.ConsumeErrHandler(broken))
	if err != nil {
		r.lost(err.Error())
		return
	}
	for clock.Sleep(r.order.ctx, checkEvery) {
		if r.b.missesFeed(unfedTime) {
			r.lost("the feed delivers nothing")
		}
	}
	consuming.Stop()
	r.b.tasks.Go(r.remove)
}

func (r *reading) lost(why string) {
	r.b.input(r.order.ctx, func(_ *peer.Peer, now peer.Instant) {
		r.b.log.Warn("reading of the bucket broken", "reason", why)
		r.b.interrupt(now)
	})
}

// remove deletes the consumer; otherwise the server does so when it is inactive.
func (r *reading) remove() {
	if !r.b.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat)
	defer cancel()
	_ = r.b.js.DeleteConsumer(ctx, StreamName, r.consumer.CachedInfo().Name)
}

func (r *reading) received(m jetstream.Msg) {
	r.sequence++
	switch d, err := m.Metadata(); {
	case err != nil:
		r.lost(err.Error())
	case d.Sequence.Consumer != r.sequence:
		r.lost(fmt.Sprintf("delivery %d came after %d", d.Sequence.Consumer, r.sequence-1))
	default:
		r.deliver(&jetstream.RawStreamMsg{
			Subject: m.Subject(), Sequence: d.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: d.Timestamp,
		}, d.NumPending)
	}
}

// deliver feeds one delivered entry to the peer, behind which others are pending.
func (r *reading) deliver(m *jetstream.RawStreamMsg, pending uint64) {
	b := r.b
	key := strings.TrimPrefix(m.Subject, SubjectPrefix)
	e := entry.Parse(key, m.Sequence, m.Time, m.Header.Get, m.Data)
	log := false
	b.input(r.order.ctx, func(p *peer.Peer, now peer.Instant) {
		log = e.Corrupt != nil && b.ignore(key)
		b.progress.note(m.Sequence + pending)
		p.Read(r.order.Number, e, now)
	})
	if log {
		b.logIgnored(key, e.Corrupt)
	}
}
