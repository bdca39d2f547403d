package backup

import (
	"context"
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

// ErrInUse is returned by Restore when a gateway uses the bucket.
var ErrInUse = errors.New("a gateway uses the bucket: stop all gateways, and wait 9 s if one was killed")

// ErrClock is returned by Restore when a clock is behind the time of the backup.
// Restored fences could be too low then, and leases too long.
var ErrClock = errors.New("the clock is behind the time of the backup")

// ErrInterfered is returned by Restore when another process has written to the bucket, or replaced it.
var ErrInterfered = errors.New("another process has used the bucket meanwhile: stop all gateways, and repeat the restore")

type Options struct {
	Replicas int  // of the new stream; 0 means as the present stream, or else as the backup
	Replace  bool // replace a bucket that is not empty
	Unused   bool // no gateway can use the bucket: presences in it are of those that were killed

	// Flush makes everything durable that the server has acknowledged. nil means that the
	// server's settings determine when its writes reach the disk.
	Flush func(ctx context.Context) error
}

// Restore replaces the bucket's stream by a new one with the live entries of a backup. No peer may use the bucket, and
// none follows the new stream before it is complete: until then its metadata has no format and no id. If Restore is
// interrupted, it can be repeated.
func Restore(ctx context.Context, nc *nats.Conn, b *Backup, o Options) (Summary, error) {
	js, err := bucket.JetStream(nc)
	if err != nil {
		return Summary{}, err
	}
	r := newRestore(nc, js, b, o)
	for _, step := range r.steps() {
		if err := step(ctx); err != nil {
			return Summary{}, err
		}
	}
	return r.restored, nil
}

type restore struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	backup  *Backup
	options Options

	config   jetstream.StreamConfig // of the new stream
	last     uint64                 // the highest known revision of any earlier stream; then that of the latest write
	now      time.Time              // the time at which the new stream was created, by its leader's clock
	at       time.Time              // the same, by this machine's clock
	restored Summary
}

func newRestore(nc *nats.Conn, js jetstream.JetStream, b *Backup, o Options) *restore {
	return &restore{nc: nc, js: js, backup: b, options: o, last: b.Revision}
}

// steps are the steps of a restore, after each of which it may be killed.
func (r *restore) steps() []func(context.Context) error {
	return []func(context.Context) error{r.check, r.deleteOld, r.createNew, r.write, r.complete}
}

// check checks that the present bucket may be replaced, and sets the configuration of the new stream: that of the
// present one if it is valid, but for its format, and otherwise the default one.
func (r *restore) check(ctx context.Context) error {
	if err := r.checkClock(time.Now()); err != nil {
		return err
	}
	r.config = r.complemented(bucket.StreamConfig(max(1, r.backup.Replicas)))
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	switch {
	case err == nil:
		present := stream.CachedInfo()
		if err := r.checkPresent(ctx, present); err != nil {
			return err
		}
		r.config.Replicas, r.last = present.Config.Replicas, max(r.last, present.State.LastSeq)
		if c := r.complemented(present.Config); bucket.CheckSettings(c) == nil { // it may have settings of an operator, such as placement
			r.config = c
		}
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	}
	if r.options.Replicas > 0 {
		r.config.Replicas = r.options.Replicas
	}
	return nil
}

// checkPresent returns ErrInUse if a peer uses the present stream, and ErrNotEmpty if it has an entry that a backup
// would contain, and Options.Replace is false. A stream that an earlier Restore left incomplete counts as empty.
func (r *restore) checkPresent(ctx context.Context, stream *jetstream.StreamInfo) error {
	if err := r.checkClock(stream.TimeStamp); err != nil {
		return err
	}
	if !bucket.IsComplete(stream.Config) || stream.State.Msgs == 0 {
		return nil
	}
	if err := bucket.CheckSettings(stream.Config); err != nil && !r.options.Replace {
		return err
	}
	present, err := (&dump{js: r.js, stream: stream}).read(ctx)
	if err != nil {
		return err
	}
	for key, ends := range present.presences {
		if left := ends.Sub(stream.TimeStamp); left > 0 && !r.options.Unused {
			return fmt.Errorf("%w; its presence %.10s… lasts for %s", ErrInUse, key, left.Round(time.Second))
		}
	}
	if len(present.Entries) > 0 && !r.options.Replace {
		return fmt.Errorf("%w: it has %d entries", ErrNotEmpty, len(present.Entries))
	}
	return nil
}

func (r *restore) deleteOld(ctx context.Context) error {
	err := r.js.DeleteStream(ctx, bucket.StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// createNew creates the new stream, which is not complete.
//
// Its first revision must be above all earlier ones, which a peer may still expect. The known ones are at most r.last.
// Those since the backup may be unknown, but they are below the microseconds since 1970. It republishes on subjects of
// its own: no peer that still lives on the old stream is fed what the restore writes.
func (r *restore) createNew(ctx context.Context) error {
	c := r.config
	c.FirstSeq = max(uint64(time.Now().UnixMicro()), r.last+1)
	c.RePublish = bucket.NewFeed()
	c.Metadata = maps.Clone(c.Metadata)
	delete(c.Metadata, bucket.FormatKey)
	delete(c.Metadata, bucket.IDKey)
	stream, err := r.createStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return ErrInterfered
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	r.config, r.last = info.Config, c.FirstSeq-1
	r.now, r.at = info.TimeStamp, time.Now()
	return r.checkClock(r.now)
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

// complemented returns a configuration with the format of this kvslots, and the id of the backup's bucket.
func (r *restore) complemented(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[bucket.FormatKey], c.Metadata[bucket.IDKey] = strconv.Itoa(entry.Format), r.backup.Store
	return c
}

// write writes the plan, and waits until the server has acknowledged all of it. The leases
// come last, so that little of their time passes before peers see them.
//
// Each write expects that the stream's last one is its own: so another restore, and a peer that has not noticed the
// deletion of its stream, make this one fail.
func (r *restore) write(ctx context.Context) error {
	p := newPlan(r.backup, r.now)
	js, err := jetstream.New(r.nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return err
	}
	w := writes{ctx: ctx, js: js, last: r.last}
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
	r.restored, r.last = p.Summary, w.last
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
	last    uint64 // the revision of the latest one
	pending []jetstream.PubAckFuture
}

// put writes an entry. If maxPending writes are pending, it first waits for one of them.
func (w *writes) put(m *entry.Message) error {
	if err := w.settle(maxPending - 1); err != nil {
		return err
	}
	ack, err := w.js.PublishMsgAsync(message(m), jetstream.WithExpectLastSequence(w.last))
	if err != nil {
		return err
	}
	w.last++
	w.pending = append(w.pending, ack)
	return nil
}

func (w *writes) settle(most int) error {
	for len(w.pending) > most {
		select {
		case <-w.pending[0].Ok():
		case err := <-w.pending[0].Err():
			if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
				return ErrInterfered
			}
			return err
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		w.pending = w.pending[1:]
	}
	return nil
}

// complete puts the stream into service, when it has all entries.
func (r *restore) complete(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	stream, err := r.js.Stream(ctx, bucket.StreamName)
	if err != nil {
		return err
	}
	if info := stream.CachedInfo(); info.State.LastSeq != r.last || info.Config.RePublish.Destination != r.config.RePublish.Destination {
		return ErrInterfered
	}
	if _, err := r.js.UpdateStream(ctx, r.complemented(r.config)); err != nil {
		return err
	}
	return r.flush(ctx)
}

func (r *restore) flush(ctx context.Context) error {
	if r.options.Flush == nil {
		return nil
	}
	return r.options.Flush(ctx)
}
