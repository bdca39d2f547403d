package natsstore

import (
	"context"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
)

// Restored is the number of Pools, Leases and Sessions that Restore has restored, and of
// Expired leases, which it left out.
type Restored = backup.Summary

// RestoreOptions are the options of Restore. If Replace is true, Restore may replace a
// bucket that has pools, leases or sessions. Replicas is the number of replicas of the new
// bucket; 0 means as many as the replaced bucket has, or the backup if there is none. Unused asserts that no Store can be open, as on an embedded server. Flush, if
// it is set, makes durable what the server has acknowledged, as natsembed.Server.Flush does:
// without it a power cut may take what was restored until the server itself has flushed it.
type RestoreOptions = backup.Options

// Backup writes the pools, leases and sessions of the bucket to w. The bucket, and so
// the backup, contains hashes in place of credentials. Stores may write to the bucket
// during the call. The backup is the bucket's state at one instant during the call.
//
// The errors are ErrNoBucket, ErrReplaced, ErrServerTooOld, ErrWrongBucket, those of
// JetStream and of w, and context.Cause(ctx).
func Backup(ctx context.Context, nc *nats.Conn, w io.Writer) error {
	b, err := backup.Dump(ctx, nc)
	if err != nil {
		return err
	}
	return backup.Write(w, b)
}

// Restore reads a backup from r, and replaces the bucket by a new one with the contents
// of the backup. Leases keep their ids, tokens and fences, and end when they would have
// ended without the restore. Restore leaves out leases whose time is over, and waiting
// borrowers. Every later lease has a higher fence than any lease before the restore.
//
// No Store may be open. If Restore fails after it has begun to replace the bucket, it must be
// repeated; until it succeeds no Store serves what was restored so far.
//
// The errors are ErrInUse, ErrInterfered, ErrCorruptBackup, ErrNotEmpty, ErrClock,
// ErrServerTooOld, ErrWrongBucket, those of r and of JetStream, and context.Cause(ctx). If
// r does not contain a complete backup, the bucket is not changed.
func Restore(ctx context.Context, nc *nats.Conn, r io.Reader, options RestoreOptions) (Restored, error) {
	b, err := backup.Read(r)
	if err != nil {
		return Restored{}, err
	}
	return backup.Restore(ctx, nc, b, options)
}
