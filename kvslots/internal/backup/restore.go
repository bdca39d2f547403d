package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
)

// codeStoreFailed is JetStream's code for a stream whose store could not be created.
const codeStoreFailed jetstream.ErrorCode = 10049

const (
	createTries = 10
	createPause = 50 * time.Millisecond
)

// ErrNotEmpty is returned by Restore when the bucket has pools, leases or sessions.
var ErrNotEmpty = errors.New("the bucket is not empty")

// ErrClock is returned by Restore when a clock is behind the time of the backup.
// Restored fences could be too low then, and leases too long.
var ErrClock = errors.New("the clock is behind the time of the backup")

// Options are the options of Restore.
type Options struct {
	Replicas int  // of the new stream; 0 means as the present stream, or else as the backup
	Replace  bool // replace a bucket that is not empty
}

// Restore replaces the bucket's stream by a new one with the live entries of a backup.
//
// No peer watches the new stream before it is complete: until then its metadata says that
// it is being restored. A running peer then sees a stream with another creation time,
// and rebuilds its view. If Restore is interrupted, it can be repeated; until it succeeds
// no peer serves callers, unless it was interrupted between the deletion of the old stream
// and the creation of the new one: then a peer may create an empty stream.
func Restore(ctx context.Context, nc *nats.Conn, b *Backup, o Options) (Summary, error) {
	if err := bucket.CheckServer(nc); err != nil {
		return Summary{}, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return Summary{}, err
	}
	if now := time.Now(); now.Before(b.Time) {
		return Summary{}, fmt.Errorf("%w, which is %s: this machine's is %s", ErrClock, b.Time, now.UTC())
	}
	r := newRestore(nc, js, b, o)
	if err := r.checkEmpty(ctx); err != nil {
		return Summary{}, err
	}
	if err := r.newStream(ctx); err != nil {
		return Summary{}, err
	}
	p := newPlan(b, r.now)
	if err := r.write(ctx, p); err != nil {
		return Summary{}, err
	}
	return p.Summary, r.complete(ctx)
}

// restore is one call of Restore.
type restore struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	backup  *Backup
	options Options

	id    string    // of this restore, in the new stream's metadata
	fence uint64    // the highest known revision of any earlier stream
	now   time.Time // the time at which the new stream was created, by its leader's clock
	at    time.Time // the same, by this machine's clock
}

func newRestore(nc *nats.Conn, js jetstream.JetStream, b *Backup, o Options) *restore {
	return &restore{nc: nc, js: js, backup: b, options: o, id: rand.Text(), fence: b.Revision}
}

// checkEmpty returns ErrNotEmpty if the bucket has an entry that a backup would contain,
// and Options.Replace is false. A stream that an earlier Restore left incomplete counts
// as empty.
func (r *restore) checkEmpty(ctx context.Context) error {
	if r.options.Replace {
		return nil
	}
	present, err := Dump(ctx, r.nc)
	switch {
	case errors.Is(err, ErrNoBucket):
		return nil
	case errors.Is(err, bucket.ErrWrongBucket):
		stream, err2 := r.js.Stream(ctx, bucket.StreamName)
		if err2 == nil && stream.CachedInfo().Config.Metadata[bucket.RestoreKey] != "" {
			return nil
		}
		return err
	case err != nil:
		return err
	case len(present.Entries) > 0:
		return fmt.Errorf("%w: it has %d entries", ErrNotEmpty, len(present.Entries))
	}
	return nil
}

// newStream deletes the present stream and creates the new one. A running peer may create
// an empty stream in between, which newStream deletes as well.
func (r *restore) newStream(ctx context.Context) error {
	for {
		config, err := r.clear(ctx)
		if err != nil {
			return err
		}
		stream, err := r.create(ctx, r.restoring(config))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		r.now, r.at = info.TimeStamp, time.Now()
		if r.now.Before(r.backup.Time) { // there was no stream to read the server's clock from
			_ = r.js.DeleteStream(ctx, bucket.StreamName)
			return fmt.Errorf("%w, which is %s: the server's is %s", ErrClock, r.backup.Time, r.now.UTC())
		}
		return nil
	}
}

// create creates the stream. It tries again if the server could not create its store:
// after the deletion of an account's last stream, nats-server removes the directories
// above it in the background, between two steps of the creation if it so happens.
func (r *restore) create(ctx context.Context, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	for range createTries {
		stream, err = r.js.CreateStream(ctx, config)
		refused, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || refused.ErrorCode != codeStoreFailed {
			return stream, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(createPause):
		}
	}
	return nil, err
}

// clear deletes the present stream and returns the configuration for the new one: that of
// the present stream if it is valid, and otherwise the default one.
func (r *restore) clear(ctx context.Context) (jetstream.StreamConfig, error) {
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return bucket.StreamConfig(max(1, r.backup.Replicas)), nil
	}
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	info := stream.CachedInfo()
	r.fence = max(r.fence, info.State.LastSeq)
	if info.TimeStamp.Before(r.backup.Time) {
		return info.Config, fmt.Errorf("%w, which is %s: the server's is %s", ErrClock, r.backup.Time, info.TimeStamp.UTC())
	}
	if err := r.js.DeleteStream(ctx, bucket.StreamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return info.Config, err
	}
	if c := inService(info.Config); bucket.CheckSettings(c) == nil { // it may have settings of an operator, such as placement
		return c, nil
	}
	return bucket.StreamConfig(info.Config.Replicas), nil
}

// inService returns the configuration without the mark of a restore.
func inService(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	delete(c.Metadata, bucket.RestoreKey)
	return c
}

// restoring returns the configuration with the mark of a restore.
//
// Fences are revisions, so the stream's first revision must be above all earlier ones.
// The known ones are in r.fence. Those since the backup may be unknown, but they are below
// the microseconds since 1970.
func (r *restore) restoring(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[bucket.RestoreKey] = r.id
	c.FirstSeq = max(uint64(time.Now().UnixMicro()), r.fence+1)
	if r.options.Replicas > 0 {
		c.Replicas = r.options.Replicas
	}
	return c
}

// maxPending is the highest number of unacknowledged writes.
const maxPending = 512

// write writes a plan, and waits until the server has acknowledged all of it. The leases
// come last, so that little of their time passes before peers see them.
//
// The writes have no expected revision, because a running peer that has not yet noticed
// the deletion of its stream may have written a claim for a slot that the plan lends. That
// peer withdraws its claim when it rebuilds its view.
func (r *restore) write(ctx context.Context, p *plan) error {
	js, err := jetstream.New(r.nc, jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		return err
	}
	var acks []jetstream.PubAckFuture
	put := func(m *nats.Msg) error {
		ack, err := js.PublishMsgAsync(m)
		acks = append(acks, ack)
		return err
	}
	for i := range p.untimed {
		if err := put(message(&p.untimed[i])); err != nil {
			return err
		}
	}
	for i := range p.leases {
		m, live := p.leases[i].message(time.Since(r.at))
		if !live {
			p.Leases, p.Expired = p.Leases-1, p.Expired+1
			continue
		}
		if err := put(message(&m)); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// complete removes the mark of a restore, whereupon peers use the stream.
func (r *restore) complete(ctx context.Context) error {
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	if err != nil {
		return err
	}
	c := stream.CachedInfo().Config
	if c.Metadata[bucket.RestoreKey] != r.id {
		return errors.New("another restore has replaced the bucket meanwhile")
	}
	_, err = r.js.UpdateStream(ctx, inService(c))
	return err
}
