package kvslots

import (
	"context"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
)

// Restored counts what Restore has restored.
type Restored = backup.Summary

// RestoreOptions are the options of Restore.
type RestoreOptions = backup.Options

// Backup writes the contents of the bucket to w: its pools, leases and sessions, with
// hashes in place of credentials. Stores may use the bucket meanwhile. The backup is the
// bucket's state at one instant during the call.
//
// The errors are ErrNoBucket, ErrServerTooOld, ErrWrongBucket, those of JetStream and of
// w, and what ctx ends with.
func Backup(ctx context.Context, nc *nats.Conn, w io.Writer) error {
	b, err := backup.Dump(ctx, nc)
	if err != nil {
		return err
	}
	return backup.Write(w, b)
}

// Restore reads what Backup has written, and replaces the bucket by a new one with that
// contents. Leases keep the time that they had left by the clock, and their ids, tokens
// and fences; those whose time is over are not restored. Waiting borrowers are not
// restored either. Later leases have higher fences than any that was told before.
//
// Stores may be open: they serve no callers until the restore is complete, and then use
// the new bucket. If Restore fails after it has begun to replace the bucket, it can be
// repeated; until then no Store can be opened.
//
// The errors are ErrCorruptBackup, ErrNotEmpty, ErrClock, ErrServerTooOld,
// ErrWrongBucket, those of r and of JetStream, and what ctx ends with. Unless r has all
// of a backup, nothing is changed.
func Restore(ctx context.Context, nc *nats.Conn, r io.Reader, options RestoreOptions) (Restored, error) {
	b, err := backup.Read(r)
	if err != nil {
		return Restored{}, err
	}
	return backup.Restore(ctx, nc, b, options)
}
