package bucket

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// RestoreStream is a stream with one message, on RestoreSubject: the inbox of the restore
// that is replacing the bucket's stream, or nothing when none is. It stands between the
// deletion of the old stream and the creation of the new one, too, and when a restore was
// killed there: no peer creates an empty stream then.
const (
	RestoreStream  = "kvslots-restore"
	RestoreSubject = subjects.Gateway + ".restore"
)

// RestoreKey is a key of the stream's metadata while the stream is being restored. Its
// value is different for each restore. No peer watches such a stream.
const RestoreKey = "kvslots-restore"

// ErrRestoring is returned by Open when the bucket is being restored. It is an
// ErrWrongBucket.
var ErrRestoring error = restoringError{}

type restoringError struct{}

func (restoringError) Error() string {
	return "the bucket is being restored; if that was interrupted, repeat kvslots restore"
}

func (restoringError) Is(target error) bool { return target == ErrWrongBucket }

// PresentRestore returns the inbox of the restore that has begun and not ended, or "", and
// the sequence of that message, or 0.
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

// mayCreate returns ErrRestoring if a restore has deleted the stream that was not found.
// That look-up came before this one, and the restore wrote its message before the deletion.
func mayCreate(ctx context.Context, js jetstream.JetStream) error {
	inbox, _, err := PresentRestore(ctx, js)
	if err == nil && inbox != "" {
		return ErrRestoring
	}
	return err
}
