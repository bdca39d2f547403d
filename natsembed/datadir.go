package natsembed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

const lockFile = "kvslots.lock"

// dataDir is a data directory that this process holds the lock of.
type dataDir struct {
	path string // absolute
	lock *flock.Flock
}

// openDataDir creates the directory if need be, readable by its owner only,
// and locks it: two servers on one JetStream store would destroy it.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// nats-server would create its store readable by the group.
	if err := os.MkdirAll(filepath.Join(path, server.JetStreamStoreDir), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(path, lockFile))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("data directory %s is in use by another kvslots process", path)
	}
	return &dataDir{path: path, lock: lock}, nil
}

// close gives the lock back. The lock file stays: removing it would let two
// processes hold locks on two files of the same name.
func (d *dataDir) close() error { return d.lock.Unlock() }
