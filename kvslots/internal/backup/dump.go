package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var ErrNoBucket = errors.New("there is no bucket " + bucket.Name)

var ErrReplaced = errors.New("the bucket was replaced during the backup, which has to be repeated")

const (
	// resetAttempts is how often a consumer that has failed is created again, after 1 s
	// and then 2 s: the stream may have a new leader. The default is to try for ever.
	resetAttempts = 3

	// checkInterval is how long Dump waits for a message before it checks the stream. The
	// consumer counts as failed when two heartbeats are missing, which must be sooner.
	checkInterval = 5 * time.Second
	heartbeat     = time.Second
)

// Dump reads the bucket while peers write to it. The result is the bucket's exact state
// after one revision, which is at least the last revision at the time of the call.
func Dump(ctx context.Context, nc *nats.Conn) (*Backup, error) {
	d, err := beginDump(ctx, nc)
	if err != nil {
		return nil, err
	}
	return d.finish(ctx)
}

type dump struct {
	js      jetstream.JetStream
	stream  *jetstream.StreamInfo // at the beginning
	barrier uint64                // the revision up to which the stream is read at least
}

func beginDump(ctx context.Context, nc *nats.Conn) (*dump, error) {
	js, err := bucket.JetStream(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, bucket.StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, ErrNoBucket
	}
	if err != nil {
		return nil, err
	}
	if err := bucket.CheckSettings(stream.CachedInfo().Config); err != nil {
		return nil, err
	}
	// Only a write proves that the leader is still the leader, and that the replica
	// that delivers the write also delivers all earlier ones.
	barrier, err := writeBarrier(ctx, js)
	if err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	return &dump{js, stream.CachedInfo(), barrier}, nil
}

// finish reads the stream. An ordered consumer continues with another stream of the same
// name, so finish looks at the end whether it is still the one of the beginning.
func (d *dump) finish(ctx context.Context) (*Backup, error) {
	b, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	b.Format, b.Replicas, b.Store = entry.Format, d.stream.Config.Replicas, d.stream.Config.Metadata[bucket.IDKey]
	return b, d.check(ctx)
}

func (d *dump) check(ctx context.Context) error {
	now, err := d.js.Stream(ctx, bucket.StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && !now.CachedInfo().Created.Equal(d.stream.Created) {
		return ErrReplaced
	}
	return err
}

// writeBarrier writes a barrier, which expires, under a random key, and returns its
// revision.
func writeBarrier(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	key := entry.Key{Kind: entry.Barrier}
	_, _ = rand.Read(key.Session[:])
	m := entry.NewMessage(key, entry.BarrierValue{}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	ack, err := js.PublishMsg(ctx, message(&m))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func message(m *entry.Message) *nats.Msg {
	out := &nats.Msg{Subject: bucket.SubjectPrefix + m.Key.String(), Header: nats.Header{}, Data: m.Value(nil)}
	m.Headers(out.Header.Set)
	return out
}

// read reads the stream in order, at least up to the barrier, until no message is
// pending. If a peer overwrites a key before read reaches it, the newer entry comes
// later in the stream. So at the end read has the last entry of every key.
func (d *dump) read(ctx context.Context) (*Backup, error) {
	consumer, err := d.js.OrderedConsumer(ctx, bucket.StreamName, jetstream.OrderedConsumerConfig{MaxResetAttempts: resetAttempts})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	b, entries := &Backup{presences: map[string]time.Time{}}, map[string]Entry{}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m, err := messages.Next(jetstream.NextMaxWait(checkInterval))
		if errors.Is(err, nats.ErrTimeout) && d.barrier == 0 { // the last entry has expired
			break
		}
		if errors.Is(err, nats.ErrTimeout) { // a stream that has replaced it may be empty
			if err := d.check(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		b.note(entries, m, meta.Sequence.Stream, meta.Timestamp)
		b.Revision = meta.Sequence.Stream
		if b.Time.Before(meta.Timestamp) {
			b.Time = meta.Timestamp.UTC()
		}
		if b.Revision >= d.barrier && meta.NumPending == 0 {
			break
		}
	}
	b.Entries = slices.SortedFunc(maps.Values(entries), func(x, y Entry) int { return cmp.Compare(x.Revision, y.Revision) })
	return b, nil
}

// note records the newest entry of a key in entries, or its deletion.
func (b *Backup) note(entries map[string]Entry, m jetstream.Msg, revision uint64, at time.Time) {
	key := strings.TrimPrefix(m.Subject(), bucket.SubjectPrefix)
	e := entry.Parse(key, revision, at, m.Headers().Get, m.Data())
	if e.Key.Kind == entry.Session && e.Session.Kind == entry.SessionPeer && !e.Marker && e.Corrupt == nil {
		b.presences[key] = at.Add(e.Session.Idle.Duration())
	} else {
		delete(b.presences, key)
	}
	if !e.Marker && e.Corrupt == nil && isKept(&e) {
		entries[key] = Entry{key, revision, at.UTC(), encoded(&e)}
	} else {
		delete(entries, key)
	}
}

// isKept reports whether a backup contains an entry.
func isKept(e *entry.Entry) bool {
	switch e.Key.Kind {
	case entry.Config, entry.Slot:
		return true
	case entry.Session:
		return e.Session.Kind == entry.SessionClient
	}
	return false
}
