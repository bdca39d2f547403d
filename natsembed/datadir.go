package natsembed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

const lockFile = "kvslots.lock"

// dataDir is a data directory that this process has locked.
type dataDir struct {
	*flush.Dir
	path string // absolute
	lock *flock.Flock
}

// openDataDir locks a data directory: two servers would destroy the JetStream store.
// If the directory does not exist, openDataDir creates it, with access for its owner only. It refuses a directory
// to which other users could write.
func openDataDir(path string, sync flush.Syncer) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := checkOwner(path); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	// nats-server would create its store readable by the group.
	if err := os.MkdirAll(filepath.Join(path, server.JetStreamStoreDir), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(path, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("data directory %s is in use by another kvslots process", path)
	}
	return &dataDir{Dir: flush.NewDir(path, bucketAccount, sync), path: path, lock: lock}, nil
}

// close unlocks the directory. The lock file stays: if it were removed, two processes
// could lock two files with the same name.
func (d *dataDir) close() error { return d.lock.Unlock() }
