package bucket

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	// maxWire is how many messages may wait for the peer. nats.go drops those for which there
	// is no room. Acknowledgements are then sent again, and entries are read again.
	maxWire = 1 << 16

	// maxBatch is how many messages the peer is fed under one lock.
	maxBatch = 64
)

// Hook intercepts the messages of the feed, entries and acknowledgements, between the connection
// and the peer. It is for tests of slow peers, since no server can be made slow, or to lose entries,
// at will. It may delay a message, or drop it. It passes the others to next, in order, from one
// goroutine.
type Hook func(m *nats.Msg, next func(*nats.Msg))

// errFeedDenied is returned when the connection may not subscribe to the feed. The text does
// not contain the feed's token.
var errFeedDenied = errors.New("NATS does not permit this account to subscribe to the bucket's feed: permit it to subscribe to " + feedSubjects)

// errUnfed is the reason if the feed does not deliver the entries that are acknowledged.
var errUnfed = errors.New("writes are acknowledged, and the bucket's feed does not deliver them: permit this account to subscribe to " + feedSubjects)

// feed delivers the bucket's entries, which the stream's leader republishes, and the
// acknowledgements of this peer's writes. The leader publishes each entry before its
// acknowledgement. Both subscriptions share one channel, and one goroutine feeds the peer, so
// an acknowledgement never overtakes its entry.
type feed struct {
	b    *Bucket
	wire chan *nats.Msg
	acks *nats.Subscription

	subject atomic.Pointer[string]            // of the entries
	entries atomic.Pointer[nats.Subscription] // nil: not subscribed
	heard   atomic.Bool                       // an entry has come since the last call of subscribe

	// run alone uses these.
	dropped   int // messages dropped by nats.go
	batch     []received
	corrupt   []*received                    // of the batch, to be logged
	feedBatch func(*peer.Peer, peer.Instant) // is feed; made once, so that it is not allocated each time
	header    nats.Header
	get       entry.Header // gets from header
}

type received struct {
	write uint64 // of the acknowledgement
	ack   peer.Ack
	key   string // of the entry; "" for an acknowledgement
	entry entry.Entry
}

func newFeed(b *Bucket) *feed {
	f := &feed{b: b, wire: make(chan *nats.Msg, maxWire), batch: make([]received, 0, maxBatch)}
	f.feedBatch = f.feed
	f.get = func(name string) string {
		if values := f.header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	return f
}

// subscribe subscribes to the subject on which the stream republishes. If nothing was heard
// from it since the last call, subscribe subscribes again: the server drops a subscription
// whose permission is taken away, and nats.go renews it only when it reconnects. ctx needs a
// deadline.
func (f *feed) subscribe(ctx context.Context, subject string) error {
	if sub := f.entries.Load(); f.heard.Swap(false) && sub != nil && sub.Subject == subject {
		return nil
	}
	f.unsubscribe()
	before := f.b.nc.LastError()
	f.subject.Store(&subject) // before the first entry comes
	sub, err := f.b.nc.ChanSubscribe(subject, f.wire)
	if err != nil {
		return err
	}
	f.entries.Store(sub)
	f.heard.Store(true) // nothing could be heard before
	// The server refuses a subscription before it answers the flush.
	if err = f.b.nc.FlushWithContext(ctx); err == nil && isDenied(f.b.nc, subject, before) {
		err = errFeedDenied
	}
	if err != nil {
		f.unsubscribe()
	}
	return err
}

// Random returns a text that is the same for all peers of the bucket, and that no other bucket has.
// It is a part of the stream's configuration.
func (b *Bucket) Random() string { return *b.feed.subject.Load() }

// missesFeed reports whether the feed has delivered nothing for at least d, although a write
// was written.
func (b *Bucket) missesFeed(d time.Duration) (misses bool) {
	b.WithPeer(func(_ *peer.Peer, now peer.Instant) { misses = b.isUnfed(d, now) })
	return misses
}

func (f *feed) unsubscribe() {
	if sub := f.entries.Swap(nil); sub != nil {
		_ = sub.Unsubscribe()
	}
}

// isDenied reports whether the server has refused a subscription or a publication since the
// connection's last error was before. (The connection is the caller's, and so is its error
// handler.)
func isDenied(nc *nats.Conn, subject string, before error) bool {
	err := nc.LastError()
	return err != before && errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject))
}

func (f *feed) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case m := <-f.wire:
			if f.b.hook != nil {
				f.b.hook(m, func(m *nats.Msg) {
					f.gather(m)
					f.flush()
				})
				continue
			}
			f.gather(m)
		}
		for n := min(len(f.wire), maxBatch-1); n > 0; n-- {
			f.gather(<-f.wire)
		}
		f.flush()
		if len(f.wire) > maxWire/2 {
			f.checkDropped()
		}
	}
}

func (f *feed) gather(m *nats.Msg) {
	if m.Sub == f.acks {
		if id, ok := f.b.parseAnswer(m); ok {
			f.batch = append(f.batch, received{write: id, ack: parseAck(m)})
		}
		return
	}
	if subject := *f.subject.Load(); m.Sub.Subject != subject {
		return // of an earlier stream
	}
	f.heard.Store(true)
	f.batch = append(f.batch, received{})
	if r := &f.batch[len(f.batch)-1]; !f.parse(m, r) {
		f.batch = f.batch[:len(f.batch)-1]
	}
}

// parse parses a republished entry. The server appends its headers to those of the writer.
func (f *feed) parse(m *nats.Msg, r *received) (ok bool) {
	revision, err := strconv.ParseUint(lastValue(m.Header, "Nats-Sequence"), 10, 64)
	if err != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, lastValue(m.Header, "Nats-Time-Stamp"))
	if err != nil {
		return false
	}
	r.key = m.Subject[len(m.Sub.Subject)-len(">"):]
	f.header = m.Header
	r.entry = entry.Parse(r.key, revision, at, f.get, m.Data)
	return true
}

func lastValue(h nats.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

func (f *feed) flush() {
	if len(f.batch) == 0 {
		return
	}
	f.b.input(f.b.open, f.feedBatch)
	for _, r := range f.corrupt {
		f.b.logIgnored(r.key, r.entry.Corrupt)
	}
	clear(f.corrupt)
	clear(f.batch)
	f.corrupt, f.batch = f.corrupt[:0], f.batch[:0]
}

func (f *feed) feed(p *peer.Peer, now peer.Instant) {
	b := f.b
	for i := range f.batch {
		r := &f.batch[i]
		if r.key == "" {
			b.acked(r.write, r.ack, now)
			continue
		}
		if r.entry.Corrupt != nil && b.ignore(r.key) {
			f.corrupt = append(f.corrupt, r)
		}
		b.progress.fed(r.entry.Revision, now)
		b.heard.fed(r.entry.Revision)
		p.Fed(r.entry, now)
	}
}

// checkDropped checks whether nats.go has dropped messages because the peer is too slow. If
// it has, the peer catches up by a reading, which has flow control: checkDropped drops the
// entries that wait, too, since one of those that follow is missing.
func (f *feed) checkDropped() {
	total := 0
	for _, sub := range []*nats.Subscription{f.acks, f.entries.Load()} {
		if n, err := sub.Dropped(); err == nil {
			total += n
		}
	}
	if total == f.dropped {
		return
	}
	f.dropped = total
	skipped := 0
	for n := len(f.wire); n > 0; n-- {
		m := <-f.wire
		if m.Sub != f.acks {
			skipped++
			continue
		}
		if f.gather(m); len(f.batch) == maxBatch {
			f.flush()
		}
	}
	f.flush()
	f.b.log.Warn("the peer is too slow for the bucket's feed: entries dropped, which it reads again", "entries", skipped)
	f.b.input(f.b.open, func(_ *peer.Peer, now peer.Instant) { f.b.interrupt(now) })
}
