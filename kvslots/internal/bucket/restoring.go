package bucket

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// RestoreStream is a stream with one message, on RestoreSubject: the inbox of the restore
// that is replacing the bucket's stream, or nothing if there is no restore. While the old
// stream is deleted and the new one does not exist yet, the message keeps peers from
// creating an empty stream, even if the restore is killed.
const (
	RestoreStream  = "kvslots-restore"
	RestoreSubject = subjects.Gateway + ".restore"
)

// RestoreKey is a key in the metadata of the bucket's stream while a restore fills the
// stream. Each restore sets another value. No peer follows such a stream.
const RestoreKey = "kvslots-restore"

var ErrRestoring error = restoringError{}

type restoringError struct{}

func (restoringError) Error() string {
	return "the bucket is being restored; if that was interrupted, repeat kvslots restore"
}

func (restoringError) Is(target error) bool { return target == ErrWrongBucket }

// PresentRestore returns the inbox of the restore that has begun and not ended, or "" if
// there is none. sequence is that of the message on RestoreSubject, or 0.
func PresentRestore(ctx context.Context, js jetstream.JetStream) (inbox string, sequence uint64, err error) {
	stream, err := js.Stream(ctx, RestoreStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, RestoreSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	return string(m.Data), m.Sequence, nil
}

// mayCreate returns ErrRestoring if a restore has deleted the stream. It must be called
// after the stream was not found: a restore writes its message before the deletion.
func mayCreate(ctx context.Context, js jetstream.JetStream) error {
	inbox, _, err := PresentRestore(ctx, js)
	if err == nil && inbox != "" {
		return ErrRestoring
	}
	return err
}
