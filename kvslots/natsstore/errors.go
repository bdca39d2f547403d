package natsstore

import (
	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
)

var (
	// ErrServerTooOld is returned by Open when the NATS server has no
	// per-message TTLs or limit markers; the error's text names the server
	// and its version.
	ErrServerTooOld = bucket.ErrServerTooOld

	// ErrWrongBucket is returned by Open when the bucket exists with settings
	// that kvslots cannot work with; the error's text names each of them. So it is while a
	// Restore runs, and after one was interrupted, until it is repeated.
	ErrWrongBucket = bucket.ErrWrongBucket

	// ErrInUse is returned by Restore when a gateway, or another Store, uses the bucket.
	ErrInUse = backup.ErrInUse

	// ErrInterfered is returned by Restore when another process has written to the bucket, or replaced it,
	// during the call, which must be repeated.
	ErrInterfered = backup.ErrInterfered

	// ErrNoBucket is returned by Backup when there is no bucket.
	ErrNoBucket = backup.ErrNoBucket

	// ErrReplaced is returned by Backup when the bucket was restored, or created anew,
	// while Backup read it.
	ErrReplaced = backup.ErrReplaced

	// ErrCorruptBackup is returned by Restore for input that is not a backup, or
	// that was cut off or changed.
	ErrCorruptBackup = backup.ErrCorruptBackup

	// ErrNotEmpty is returned by Restore when the bucket has pools, leases or
	// sessions, and RestoreOptions.Replace is false.
	ErrNotEmpty = backup.ErrNotEmpty

	// ErrClock is returned by Restore when this machine's clock or the server's is
	// behind the time of the backup. Restored fences could be too low then, and
	// leases too long.
	ErrClock = backup.ErrClock
)
