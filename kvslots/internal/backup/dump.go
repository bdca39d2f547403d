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

// ErrNoBucket is returned by Dump when there is no bucket.
var ErrNoBucket = errors.New("there is no bucket " + bucket.Name)

// Dump reads the bucket while peers write to it. The result is the bucket's exact state
// after one revision, which is at least the last revision at the time of the call.
func Dump(ctx context.Context, nc *nats.Conn) (*Backup, error) {
	if err := bucket.CheckServer(nc); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
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
	b, err := read(ctx, js, barrier)
	if err != nil {
		return nil, err
	}
	b.Version, b.Replicas = version, stream.CachedInfo().Config.Replicas
	return b, nil
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
	out := &nats.Msg{Subject: bucket.SubjectPrefix + m.Key.String(), Header: nats.Header{}, Data: m.Data}
	m.Headers(out.Header.Set)
	return out
}

// read reads the stream in order, at least up to the revision atLeast, until no message
// is pending. If a peer overwrites a key before read reaches it, the newer entry comes
// later in the stream. So at the end read has the last entry of every key.
func read(ctx context.Context, js jetstream.JetStream, atLeast uint64) (*Backup, error) {
	consumer, err := js.OrderedConsumer(ctx, bucket.StreamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	b, entries := &Backup{}, map[string]Entry{}
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		note(entries, m, meta.Sequence.Stream, meta.Timestamp)
		b.Revision = meta.Sequence.Stream
		if b.Time.Before(meta.Timestamp) {
			b.Time = meta.Timestamp.UTC()
		}
		if b.Revision >= atLeast && meta.NumPending == 0 {
			break
		}
	}
	b.Entries = slices.SortedFunc(maps.Values(entries), func(x, y Entry) int { return cmp.Compare(x.Revision, y.Revision) })
	return b, nil
}

// note records the newest entry of a key in entries, or its deletion.
func note(entries map[string]Entry, m jetstream.Msg, revision uint64, at time.Time) {
	key := strings.TrimPrefix(m.Subject(), bucket.SubjectPrefix)
	e := entry.Parse(key, revision, at, m.Headers().Get, m.Data())
	if !e.Marker && e.Corrupt == nil && isKept(&e) {
		entries[key] = Entry{key, revision, at.UTC(), m.Data()}
	} else {
		delete(entries, key)
	}
}

// isKept reports whether a backup contains an entry.
func isKept(e *entry.Entry) bool {
	switch e.Key.Kind {
	case entry.Config:
		return !e.Config.Deleted
	case entry.Slot:
		return true
	case entry.Session:
		return e.Session.Kind == entry.SessionClient
	}
	return false
}
