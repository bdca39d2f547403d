package kvslots

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	heartbeat   = time.Second
	silence     = 2500 * time.Millisecond // after which a watch is taken for dead
	watchRetry  = 250 * time.Millisecond
	watchSetup  = 5 * time.Second
	maxDoubts   = 1000             // foreign entries that are logged
	rebuildSlip = 20 * time.Second // safety margin below a marker's life
)

// watch is one push consumer on the whole bucket. (The KV watcher hides the
// headers, and was seen to take 20 s to notice a dead server.)
type watch struct {
	sub      *nats.Subscription
	consumer string
	sequence uint64 // the consumer's last delivery
	heard    rules.Instant
	broken   bool
}

// keepWatch keeps one watch going, and replaces it when it breaks.
func (b *bucket) keepWatch() {
	for {
		err := b.startWatch()
		if err != nil {
			b.log.Debug().Err(err).Msg("watch not created, catching up by direct gets")
			b.catchUp()
			if !b.sleep(watchRetry) {
				return
			}
			continue
		}
		for b.watchAlive() {
			if !b.sleepOr(heartbeat/2, b.wakeWatch) {
				b.stopWatch()
				return
			}
		}
		b.stopWatch()
	}
}

func (b *bucket) sleep(d time.Duration) bool { return b.sleepOr(d, nil) }

// sleepOr sleeps for d, or until it is woken; false says that the bucket closes.
func (b *bucket) sleepOr(d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-b.closed:
		return false
	case <-wake:
	case <-t.C:
	}
	return true
}

func (b *bucket) startWatch() error {
	ctx, cancel := context.WithTimeout(context.Background(), watchSetup)
	defer cancel()
	info, err := b.stream.Info(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if !info.Created.Equal(b.created) {
		b.created = info.Created
		b.rebuild("the stream is another one")
	} else if info.State.LastSeq < b.world.Revision && info.Config.Replicas == 1 {
		b.rebuild("the stream went back")
	}
	from := b.world.Revision + 1
	w := &watch{heard: b.now()}
	b.watch = w
	b.mu.Unlock()

	inbox := b.nc.NewInbox()
	w.sub, err = b.nc.Subscribe(inbox, func(m *nats.Msg) { b.received(w, m) })
	if err != nil {
		return err
	}
	_ = w.sub.SetPendingLimits(-1, -1) // flow control bounds it
	cfg := jetstream.ConsumerConfig{
		Name:              strings.ReplaceAll(b.nc.NewInbox(), ".", "_"),
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		FlowControl:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 10 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if from == 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverAllPolicy, 0
	}
	if _, err = b.stream.CreatePushConsumer(ctx, cfg); err != nil {
		_ = w.sub.Unsubscribe()
		return err
	}
	b.mu.Lock()
	w.consumer = cfg.Name
	w.heard = b.now()
	b.world.Postpone(b.now()) // nobody could refresh a session meanwhile
	b.mu.Unlock()
	poke(b.wakeBarrier)
	return nil
}

func (b *bucket) watchAlive() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.watch.broken && b.now()-b.watch.heard < rules.Instant(silence)
}

func (b *bucket) stopWatch() {
	b.mu.Lock()
	w := b.watch
	w.broken = true
	b.mu.Unlock()
	_ = w.sub.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat)
	defer cancel()
	_ = b.stream.DeleteConsumer(ctx, w.consumer) // it would go by itself
}

// hook stands between the watch and the view. It may hold a message back, and
// leave it out if the server could have skipped it; what it lets through it
// gives to next, in order, from one goroutine at a time.
type hook func(m *nats.Msg, next func(*nats.Msg))

// received takes one message of the watch.
func (b *bucket) received(w *watch, m *nats.Msg) {
	switch {
	case m.Header.Get("Status") == "100":
		b.control(w, m)
	case b.hook != nil:
		b.hook(m, func(m *nats.Msg) { b.delivered(w, m) })
	default:
		b.delivered(w, m)
	}
}

func (b *bucket) delivered(w *watch, m *nats.Msg) {
	if err := b.deliver(w, m); err != nil {
		b.log.Warn().Err(err).Msg("watch broken")
		b.breakWatch(w)
	}
}

// control takes a heartbeat or a request of the flow control.
func (b *bucket) control(w *watch, m *nats.Msg) {
	if m.Reply != "" {
		_ = m.Respond(nil)
	} else if stalled := m.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		_ = b.nc.Publish(stalled, nil)
	}
	last := m.Header.Get("Nats-Last-Consumer")
	b.mu.Lock()
	w.heard = b.now()
	lost := last != "" && last != fmt.Sprint(w.sequence) && b.hook == nil
	b.mu.Unlock()
	if lost {
		b.breakWatch(w)
	}
}

func (b *bucket) breakWatch(w *watch) {
	b.mu.Lock()
	w.broken = true
	b.mu.Unlock()
	poke(b.wakeWatch)
}

func (b *bucket) deliver(w *watch, m *nats.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	key := strings.TrimPrefix(m.Subject, subjectPrefix)
	e := entry.Parse(key, meta.Sequence.Stream, meta.Timestamp, m.Header.Get, m.Data)
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.broken || w != b.watch {
		return nil
	}
	w.heard = b.now()
	if w.sequence++; meta.Sequence.Consumer != w.sequence && b.hook == nil {
		return fmt.Errorf("delivery %d came after %d", meta.Sequence.Consumer, w.sequence-1)
	}
	b.apply(e, key)
	return nil
}

// apply brings the view up to one entry, and everybody here with it.
func (b *bucket) apply(e entry.Entry, key string) {
	w, now := b.world, b.now()
	if e.Revision <= w.Revision {
		return
	}
	if b.loaded && e.Time.Sub(w.Time) > rules.MarkerTTL-rebuildSlip {
		// A marker may have come and gone unseen. Timestamps tell, for the
		// clocks of a suspended machine stood still.
		b.rebuild("the view slept for too long")
		return
	}
	if e.Corrupt != nil {
		b.doubt(key, e.Corrupt)
	}
	if e.Revision > w.Revision+1 && b.loaded {
		b.stats.skips++
	}
	age := time.Duration(0)
	if !b.loaded {
		age = time.Hour // not known; Rebase sets it right
	}
	exact := w.Exact()
	w.Apply(e, now, age)
	if b.loaded {
		b.lives.streamTime = e.Time
	}
	b.capture(e)
	if !exact {
		b.settleExact()
	}
	if !b.loaded && e.Key == b.self.key() && !e.Marker {
		b.loaded = true // our own entry is behind all that was there
		b.lives.streamTime = e.Time
		w.Rebase(e.Time.Add(b.skew()), now)
		if b.cfg.Sole { // no session could be refreshed while there was no server
			w.Postpone(now)
			w.EndOthers(b.self.id, now)
		}
		for id := range b.locals {
			b.dirty[id] = struct{}{}
		}
		for id := range b.watched {
			b.dirty[id] = struct{}{}
		}
		b.log.Debug().Int("pools", w.Pools()).Uint64("revision", w.Revision).Msg("view loaded")
	}
	b.presenceSeen(e)
	b.sessionSeen(e)
	b.adopt(e)
	b.follow()
}

// skew is added slack for what was written before this view began: on a
// replicated stream, by another leader's clock perhaps.
func (b *bucket) skew() time.Duration {
	if b.replicated() {
		return -5 * time.Second
	}
	return 0
}

func (b *bucket) replicated() bool { return b.stream.CachedInfo().Config.Replicas > 1 }

// follow takes everybody along to where the view now stands.
func (b *bucket) follow() {
	for touched := b.world.Touched(); ; touched = b.world.Touched() {
		for _, p := range touched {
			b.dirty[p.ID] = struct{}{}
		}
		for id := range b.dirty {
			delete(b.dirty, id)
			b.promote(b.world.Pool(id))
			if lp := b.locals[id]; lp != nil {
				b.advance(lp)
			}
			b.lookAfter(id)
			b.tellAwaits(id)
		}
		b.answerQuestions()
		if len(touched) == 0 && len(b.dirty) == 0 {
			break
		}
	}
	if next, ok := b.world.NextDue(); ok && next < b.wakesAt {
		poke(b.wakeClock)
	}
}

// doubt logs an entry that is none of ours, once.
func (b *bucket) doubt(key string, why error) {
	if _, known := b.doubts[key]; known || len(b.doubts) >= maxDoubts {
		return
	}
	b.doubts[key] = struct{}{}
	b.log.Warn().Stringer("key_hash", entry.HashOf("key", key)).Str("reason", why.Error()).
		Msg("foreign or corrupt entry in the bucket ignored")
}

// rebuild throws the view away and builds it anew.
func (b *bucket) rebuild(why string) {
	b.log.Warn().Str("reason", why).Msg("view rebuilt")
	b.stats.rebuilds++
	b.world = rules.New()
	b.loaded = false
	for _, lp := range b.locals {
		lp.held = 0
	}
	if b.watch != nil {
		b.watch.broken = true
	}
	b.forgetPresence()
	poke(b.wakeWatch)
}

// catchUp applies what there is to be had by batched direct gets, which any
// replica answers, while no consumer can be had. A stale replica does no harm:
// the view never goes back.
func (b *bucket) catchUp() {
	b.mu.Lock()
	from, loaded := b.world.Revision+1, b.loaded
	b.mu.Unlock()
	if !loaded || !b.replicated() {
		return
	}
	msgs, err := getBatch(b.nc, from, 1000)
	if err != nil {
		b.log.Debug().Err(err).Msg("direct get failed")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		key := strings.TrimPrefix(m.subject, subjectPrefix)
		b.apply(entry.Parse(key, m.sequence, m.at, m.header.Get, m.data), key)
	}
}
