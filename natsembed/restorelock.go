package natsembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

const restoreLockFile = "restore.lock"

// ErrRestoreRunning is returned by LockRestore while another process has the lock.
var ErrRestoreRunning = errors.New("another restore is running")

// makeRestoreLock makes the file of LockRestore, beside the socket. The server does, as
// its own user: a file of root's would lock that user out.
func makeRestoreLock(dataDir string) error {
	file, err := os.OpenFile(filepath.Join(dataDir, socketDir, restoreLockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// LockRestore gives the caller alone the right to replace streams of the server that runs
// on a data directory, until unlock is called. Two callers that delete and create the
// same stream at once can make nats-server panic: the one removes the files that the
// other's creation reads.
func LockRestore(dataDir string) (unlock func() error, err error) {
	lock := flock.New(filepath.Join(dataDir, socketDir, restoreLockFile), flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	if !locked {
		return nil, fmt.Errorf("data directory %s: %w", dataDir, ErrRestoreRunning)
	}
	return lock.Unlock, nil
}
