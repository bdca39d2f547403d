package natsembed

import (
	"context"
	"encoding/json"
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
	// cleanFile stands in the data directory after a full stop and a full flush.
	cleanFile = "clean"

	// syncFile holds the Sync of the latest run.
	syncFile = "sync"

	// failedFile stands there after a write to the disk has failed.
	failedFile = "failed"

	// lostDir takes streams that never came to be.
	lostDir = "lost"
)

// derived are the files that nats-server writes beside the blocks to start faster.
// They are not flushed with the blocks. A wheel of expiry times that is newer than
// the blocks was seen to delete live entries.
var derived = []string{"index.db", "thw.db"}

// recover makes the directory fit for a start: after an unclean stop it undoes
// what reached the disk too early. No server may run.
func (d *dataDir) recover() error {
	clean := filepath.Join(d.path, cleanFile)
	err := os.Remove(clean)
	switch {
	case err == nil:
		return syncPath(d.path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	streams, err := listStreams(d.streamsPath())
	if err != nil {
		return err
	}
	if err := d.readFromDisk(); err != nil {
		return err
	}
	for _, name := range streams {
		if err := d.recoverStream(name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return nil
}

// readFromDisk has everything read from the disk again after a write to it has
// failed. The kernel still has in memory what it could not write, and holds it for
// written.
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

// noteFailure has the next start read from the disk. It need not reach the disk
// itself: after a power cut there is nothing else to read from.
func (d *dataDir) noteFailure() {
	_ = os.WriteFile(filepath.Join(d.path, failedFile), nil, 0o600)
}

func (d *dataDir) recoverStream(name string) error {
	dir := filepath.Join(d.streamsPath(), name)
	stillborn, err := d.stillborn(dir)
	if err != nil {
		return err
	}
	if stillborn {
		return d.setAside(dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, msgsDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(d.dropDerived(name), putBack(dir))
}

// dropDerived has a stream recovered from its blocks alone.
func (d *dataDir) dropDerived(stream string) error {
	msgs := filepath.Join(d.streamsPath(), stream, msgsDir)
	for _, name := range derived {
		if err := os.Remove(filepath.Join(msgs, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := syncPath(msgs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stillborn reports whether a power cut came before the stream was first flushed:
// nothing in it was ever told. nats-server cannot recover it.
func (d *dataDir) stillborn(dir string) (bool, error) {
	sync, err := readIfThere(filepath.Join(d.path, syncFile))
	if err != nil || Sync(sync) != SyncGroup {
		return false, err
	}
	_, err = os.Lstat(filepath.Join(dir, keepDir)) // made when the rest was flushed
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	meta, err := readIfThere(filepath.Join(dir, server.JetStreamMetaFile))
	if err != nil {
		return false, err
	}
	sum, err := readIfThere(filepath.Join(dir, server.JetStreamMetaFileSum))
	return !json.Valid(meta) || len(sum) == 0, err
}

// readIfThere returns the content of a file, none if there is no such file.
func readIfThere(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// setAside moves a stream to where nats-server does not look.
func (d *dataDir) setAside(dir string) error {
	lost := filepath.Join(d.path, lostDir)
	if err := os.MkdirAll(lost, 0o700); err != nil {
		return err
	}
	to := filepath.Join(lost, fmt.Sprintf("%s-%d", filepath.Base(dir), time.Now().UnixNano()))
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	return errors.Join(syncPath(filepath.Dir(dir)), syncPath(lost), syncPath(d.path))
}

// seal notes that the server has stopped and that everything is on disk.
func (d *dataDir) seal() error {
	if err := syncTree(filepath.Join(d.path, server.JetStreamStoreDir)); err != nil {
		return err
	}
	streams, err := listStreams(d.streamsPath())
	if err != nil {
		return err
	}
	for _, name := range streams {
		if err := dropLinks(filepath.Join(d.streamsPath(), name)); err != nil {
			return err
		}
	}
	return writeDurably(filepath.Join(d.path, cleanFile), nil)
}

// checkRecovery fails when a stream that is on disk did not come back.
// nats-server logs a warning about a damaged stream and goes on without it;
// the bucket would be created anew, empty, over leases that are still held.
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
