package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
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

type Options struct {
	Replicas int  // of the new stream; 0 means as the present stream, or else as the backup
	Replace  bool // replace a bucket that is not empty

	// Flush makes everything durable that the server has acknowledged. nil means that the
	// server's settings determine when its writes reach the disk.
	Flush func(ctx context.Context) error
}

// Restore replaces the bucket's stream by a new one with the live entries of a backup.
//
// No peer follows the new stream before it is complete: until then its metadata says that
// it is being restored. A running peer then sees a stream with another creation time,
// and rebuilds its view. While there is no stream, the mark keeps peers from creating one.
// Each step is durable before the next one that relies on it, if Options.Flush is set: the
// mark before the old stream is deleted, the entries before the new stream is put into
// service, and that before the mark is removed and Restore returns.
//
// If Restore is interrupted, it can be repeated; until it succeeds no peer serves callers,
// or, if it had not yet deleted the old stream, all do.
func Restore(ctx context.Context, nc *nats.Conn, b *Backup, o Options) (Summary, error) {
	js, err := bucket.JetStream(nc)
	if err != nil {
		return Summary{}, err
	}
	if now := time.Now(); now.Before(b.Time) {
		return Summary{}, fmt.Errorf("%w, which is %s: this machine's is %s", ErrClock, b.Time, now.UTC())
	}
	r := newRestore(nc, js, b, o)
	err = errors.Join(r.run(ctx), r.end(ctx))
	return r.restored, err
}

type restore struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	backup  *Backup
	options Options
	mark    mark

	id       string                 // of this restore, in the new stream's metadata
	config   jetstream.StreamConfig // of the new stream in service
	last     uint64                 // the highest known revision of any earlier stream
	now      time.Time              // the time at which the new stream was created, by its leader's clock
	at       time.Time              // the same, by this machine's clock
	restored Summary
}

func newRestore(nc *nats.Conn, js jetstream.JetStream, b *Backup, o Options) *restore {
	return &restore{nc: nc, js: js, backup: b, options: o, id: rand.Text(), last: b.Revision}
}

func (r *restore) run(ctx context.Context) error {
	for _, step := range r.steps() {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// steps are the steps of a restore, after each of which it may be killed.
func (r *restore) steps() []func(context.Context) error {
	return []func(context.Context) error{r.begin, r.checkEmpty, r.deleteOld, r.createNew, r.write, r.complete}
}

// configure sets the configuration of the new stream: that of the present stream if it is
// valid, but for its format, and otherwise the default one. It reports whether peers may use the present stream.
func (r *restore) configure(ctx context.Context) (inService bool, err error) {
	r.config = bucket.StreamConfig(max(1, r.backup.Replicas))
	r.config.Metadata[bucket.IDKey] = r.backup.Store
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	switch {
	case err == nil:
		present := stream.CachedInfo().Config
		inService = present.Metadata[bucket.RestoreKey] == ""
		r.config.Replicas = present.Replicas
		c := unmarked(present)
		c.Metadata[bucket.IDKey] = r.backup.Store
		if bucket.CheckSettings(c) == nil { // it may have settings of an operator, such as placement
			r.config = c
		}
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return false, err
	}
	if r.options.Replicas > 0 {
		r.config.Replicas = r.options.Replicas
	}
	return inService, nil
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
	case errors.Is(err, ErrNoBucket), errors.Is(err, bucket.ErrRestoring):
		return nil
	case err != nil:
		return err
	case len(present.Entries) > 0:
		return fmt.Errorf("%w: it has %d entries", ErrNotEmpty, len(present.Entries))
	}
	return nil
}

func (r *restore) deleteOld(ctx context.Context) error {
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.last = max(r.last, stream.CachedInfo().State.LastSeq)
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.mark.harmless = false
	if err := r.js.DeleteStream(ctx, bucket.StreamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil
}

// createNew creates the new stream. If there was none, a peer that looked for the mark
// before it was set may have created an empty one, which createNew deletes.
func (r *restore) createNew(ctx context.Context) error {
	r.mark.harmless = false
	for {
		stream, err := r.createStream(ctx, r.marked(r.config))
		if err == nil {
			r.now, r.at = stream.CachedInfo().TimeStamp, time.Now()
			return r.checkClock(r.now)
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || ctx.Err() != nil {
			return err
		}
		if err := r.deleteOld(ctx); err != nil {
			return err
		}
	}
}

// checkClock returns ErrClock if a server's clock is behind the time of the backup.
func (r *restore) checkClock(now time.Time) error {
	if now.Before(r.backup.Time) {
		return fmt.Errorf("%w, which is %s: the server's is %s", ErrClock, r.backup.Time, now.UTC())
	}
	return nil
}

// createStream creates a stream. It tries again if the server could not create the stream's
// store: after the deletion of an account's last stream, nats-server removes the directories
// above it in the background, which may happen between two steps of the creation.
func (r *restore) createStream(ctx context.Context, config jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	for range createTries {
		stream, err = r.js.CreateStream(ctx, config)
		refused, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || refused.ErrorCode != codeStoreFailed || !clock.Sleep(ctx, createPause) {
			return stream, err
		}
	}
	return nil, err
}

// unmarked returns the configuration without the mark of a restore, for entries of this format.
func unmarked(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	delete(c.Metadata, bucket.RestoreKey)
	c.Metadata[bucket.FormatKey] = strconv.Itoa(entry.Format)
	return c
}

// marked returns the configuration with the mark of this restore.
//
// The stream's first revision must be above all earlier ones, which a peer may still expect.
// The known ones are at most r.last. Those since the backup may be unknown, but they are below
// the microseconds since 1970.
//
// The stream republishes on subjects of its own: no peer that still lives on the old stream
// is fed what the restore writes.
func (r *restore) marked(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	c.Metadata[bucket.RestoreKey] = r.id
	c.FirstSeq = max(uint64(time.Now().UnixMicro()), r.last+1)
	c.RePublish = bucket.NewFeed()
	return c
}

// write writes the plan, and waits until the server has acknowledged all of it. The leases
// come last, so that little of their time passes before peers see them.
//
// The writes have no expected revision, because a running peer that has not yet noticed
// the deletion of its stream may have written a claim for a slot that the plan lends. That
// peer withdraws its claim when it rebuilds its view.
func (r *restore) write(ctx context.Context) error {
	p := newPlan(r.backup, r.now)
	js, err := jetstream.New(r.nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return err
	}
	w := writes{ctx: ctx, js: js}
	for i := range p.untimed {
		if err := w.put(&p.untimed[i]); err != nil {
			return err
		}
	}
	for i := range p.leases {
		m, live := p.leases[i].message(time.Since(r.at))
		if !live {
			p.Leases, p.Expired = p.Leases-1, p.Expired+1
			continue
		}
		if err := w.put(&m); err != nil {
			return err
		}
	}
	if err := w.settle(0); err != nil {
		return err
	}
	r.restored = p.Summary
	return nil
}

// maxPending is the highest number of unacknowledged writes. It is below the maximum of
// package jetstream, which fails a write that waits for more than 200 ms for an
// acknowledgement. A server that flushes each write alone acknowledges those that have come
// together when it has flushed all of them, and that takes longer.
const maxPending = 512

// ackTimeout is how long a write may stay unacknowledged. Without it one would wait for
// ever for an acknowledgement that was lost with the connection.
const ackTimeout = 30 * time.Second

// writes are the writes of a restore that are not acknowledged yet, in their order.
type writes struct {
	ctx     context.Context
	js      jetstream.JetStream
	pending []jetstream.PubAckFuture
}

// put writes an entry. If maxPending writes are pending, it first waits for one of them.
func (w *writes) put(m *entry.Message) error {
	if err := w.settle(maxPending - 1); err != nil {
		return err
	}
	ack, err := w.js.PublishMsgAsync(message(m))
	if err != nil {
		return err
	}
	w.pending = append(w.pending, ack)
	return nil
}

func (w *writes) settle(most int) error {
	for len(w.pending) > most {
		select {
		case <-w.pending[0].Ok():
		case err := <-w.pending[0].Err():
			return err
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		w.pending = w.pending[1:]
	}
	return nil
}

func (r *restore) complete(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	if err != nil {
		return err
	}
	c := stream.CachedInfo().Config
	if c.Metadata[bucket.RestoreKey] != r.id {
		return errors.New("another restore has replaced the bucket meanwhile")
	}
	if _, err = r.js.UpdateStream(ctx, unmarked(c)); err == nil {
		err = r.flush(ctx)
	}
	r.mark.harmless = err == nil
	return err
}

func (r *restore) flush(ctx context.Context) error {
	if r.options.Flush == nil {
		return nil
	}
	return r.options.Flush(ctx)
}
