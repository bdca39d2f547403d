package natsembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

const recoveryCheckTimeout = 30 * time.Second

const (
	// cleanFile is in the data directory after a clean stop, with everything flushed.
	cleanFile = "clean"

	// syncFile contains the Sync of the latest run.
	syncFile = "sync"

	// failedFile is in the data directory after a write to the disk has failed.
	failedFile = "failed"

	// lostDir contains streams that were never flushed and cannot be recovered.
	lostDir = "lost"
)

// derived are the files that nats-server writes beside the blocks to start faster. The
// Flusher does not flush them. In a test, a file of expiry times (thw.db) that was newer
// than the blocks made nats-server delete live entries.
var derived = []string{"index.db", "thw.db"}

// recover prepares the directory for a start. After an unclean stop it undoes changes
// that reached the disk too early. No server may be running.
func (d *dataDir) recover() error {
	clean := filepath.Join(d.path, cleanFile)
	err := os.Remove(clean)
	switch {
	case err == nil:
		return d.sync.path(d.path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := d.readFromDisk(); err != nil {
		return err
	}
	return d.eachStream(func(name string) error {
		if err := d.recoverStream(name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		return nil
	})
}

// readFromDisk drops the kernel's cache of the streams after a write to the disk has
// failed: the kernel keeps pages that it could not write, and marks them as written.
func (d *dataDir) readFromDisk() error {
	failed := filepath.Join(d.path, failedFile)
	if _, err := os.Lstat(failed); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := filepath.WalkDir(d.streamsPath(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			err = dropCache(path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(failed)
}

// noteFailure makes the next start call dropCache. The file that it writes need not
// reach the disk: a power cut empties the cache anyway.
func (d *dataDir) noteFailure() {
	_ = os.WriteFile(filepath.Join(d.path, failedFile), nil, 0o600)
}

func (d *dataDir) recoverStream(name string) error {
	dir := filepath.Join(d.streamsPath(), name)
	there, err := d.mendStream(dir)
	if err != nil || !there {
		return err
	}
	if err := errors.Join(d.dropDerived(name), putBack(dir, d.sync)); err != nil {
		return err
	}
	return d.sync.tree(dir) // as nats-server removes what is superseded as soon as it starts
}

// dropDerived removes the derived files, so that nats-server recovers the stream from
// its blocks alone.
func (d *dataDir) dropDerived(stream string) error {
	msgs := filepath.Join(d.streamsPath(), stream, msgsDir)
	// A purge replaces msgs, and may have been interrupted.
	if err := os.Mkdir(msgs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range derived {
		if err := os.Remove(filepath.Join(msgs, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return d.sync.path(msgs)
}

// neverFlushed reports whether a power cut came before the first flush of a stream that has
// no valid configuration. No write to it was reported as durable, and nats-server cannot
// recover it.
func (d *dataDir) neverFlushed(dir string) (bool, error) {
	sync, err := readIfThere(filepath.Join(d.path, syncFile))
	if err != nil || Sync(sync) != SyncGroup {
		return false, err
	}
	_, err = os.Lstat(filepath.Join(dir, keepDir)) // created after the first flush
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// readIfThere returns the content of a file, or nil if the file does not exist.
func readIfThere(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// setAside moves a stream into lostDir, where nats-server does not look.
func (d *dataDir) setAside(dir string) error {
	lost := filepath.Join(d.path, lostDir)
	if err := os.MkdirAll(lost, 0o700); err != nil {
		return err
	}
	to := filepath.Join(lost, fmt.Sprintf("%s-%d", filepath.Base(dir), time.Now().UnixNano()))
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	return errors.Join(d.sync.path(filepath.Dir(dir)), d.sync.path(lost), d.sync.path(d.path))
}

// markClean writes cleanFile after the server has stopped.
func (d *dataDir) markClean() error {
	if err := d.settle(); err != nil {
		return err
	}
	return d.sync.write(filepath.Join(d.path, cleanFile), nil)
}

// settle flushes everything and removes the links. No server may be running.
func (d *dataDir) settle() error {
	if err := d.sync.tree(filepath.Join(d.path, server.JetStreamStoreDir)); err != nil {
		return err
	}
	return d.eachStream(func(name string) error { return dropLinks(filepath.Join(d.streamsPath(), name), d.sync) })
}

// checkRecovery returns an error if nats-server has not recovered a stream that is on
// disk. nats-server only logs a warning about a damaged stream and runs without it; a
// store would create an empty bucket while clients still hold leases of the old one.
func (s *Server) checkRecovery(ctx context.Context) error {
	names, err := listStreams(s.dir.streamsPath())
	if err != nil || len(names) == 0 {
		return err
	}
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryCheckTimeout)
	defer cancel()
	for _, name := range names {
		if _, err := js.Stream(ctx, name); err != nil {
			return fmt.Errorf("data directory %s: stream %s was not recovered (see nats-server's warnings): %w", s.dir.path, name, err)
		}
	}
	return nil
}
