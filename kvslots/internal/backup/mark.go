package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
)

var ErrRestoreRunning = errors.New("another restore is running")

// markTimeout bounds how long another restore may take to answer, and the removal of the
// mark after ctx has ended.
const markTimeout = 2 * time.Second

// mark is the message in bucket.RestoreStream that makes this restore the present one.
type mark struct {
	sequence uint64
	alive    *nats.Subscription // answers while this restore runs; nil before begin
	harmless bool               // the bucket is in service, or there was none: the mark may go
}

// begin makes this restore the present one, unless another one runs. A restore that was
// killed does not answer requests to its inbox, and is replaced.
func (r *restore) begin(ctx context.Context) error {
	other, last, err := bucket.PresentRestore(ctx, r.js)
	if err != nil {
		return err
	}
	if other != "" && r.isAlive(ctx, other) {
		return ErrRestoreRunning
	}
	inService, err := r.configure(ctx)
	if err != nil {
		return err
	}
	stream, err := r.restoreStream(ctx)
	if err != nil {
		return err
	}
	if err := r.checkClock(stream.CachedInfo().TimeStamp); err != nil {
		return err
	}
	inbox := r.nc.NewInbox()
	if r.mark.alive, err = r.nc.Subscribe(inbox, func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return err
	}
	if r.mark.sequence, err = r.setPresent(ctx, inbox, last); err != nil {
		return err
	}
	r.mark.harmless = other == "" || inService
	return nil
}

func (r *restore) isAlive(ctx context.Context, inbox string) bool {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	_, err := r.nc.RequestWithContext(ctx, inbox, nil)
	return !errors.Is(err, nats.ErrNoResponders)
}

// restoreStream returns bucket.RestoreStream. It is never deleted: nats-server may panic
// when a stream is created while another one of its name is being deleted.
func (r *restore) restoreStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := r.js.Stream(ctx, bucket.RestoreStream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, err
	}
	stream, err = r.createStream(ctx, jetstream.StreamConfig{
		Name:        bucket.RestoreStream,
		Description: "kvslots: the inbox of the restore that has begun and not ended",
		Subjects:    []string{bucket.RestoreSubject},
		Storage:     jetstream.FileStorage,
		Replicas:    r.config.Replicas,
		MaxMsgs:     1,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		err = ErrRestoreRunning
	}
	return stream, err
}

// setPresent makes the restore with an inbox the present one, or none if inbox is "", if
// the present message has the sequence last. It returns the sequence of the new one.
func (r *restore) setPresent(ctx context.Context, inbox string, last uint64) (uint64, error) {
	ack, err := r.js.Publish(ctx, bucket.RestoreSubject, []byte(inbox), jetstream.WithExpectLastSequence(last))
	refused, ok := errors.AsType[*jetstream.APIError](err)
	if ok && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, ErrRestoreRunning
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// end removes the mark, unless the bucket is neither as it was nor complete: peers must
// not create it then, and the restore has to be repeated.
func (r *restore) end(ctx context.Context) error {
	if r.mark.alive == nil {
		return nil
	}
	defer func() { _ = r.mark.alive.Unsubscribe() }()
	if !r.mark.harmless {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if _, err := r.setPresent(ctx, "", r.mark.sequence); err != nil {
		return fmt.Errorf("the restore was not marked as ended: %w", err)
	}
	return nil
}
