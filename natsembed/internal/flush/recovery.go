package flush

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// cleanFile is in the data directory after a clean stop, with everything flushed.
	cleanFile = "clean"

	// modeFile contains the mode of the latest run (see NoteMode).
	modeFile = "sync"

	// failedFile is in the data directory after a write to the disk has failed.
	failedFile = "failed"

	// lostDir contains streams that were never flushed and cannot be recovered.
	lostDir = "lost"
)

// derived are the files that nats-server writes beside the blocks to start faster. The
// Flusher does not flush them. In a test, a file of expiry times (thw.db) that was newer
// than the blocks made nats-server delete live entries.
var derived = []string{"index.db", "thw.db"}

// Recover prepares the directory for a start. After an unclean stop it undoes changes
// that reached the disk too early. It changes nothing and returns an error if nats-server could
// not start for now.
func (d *Dir) Recover() error {
	if err := d.startable(); err != nil {
		return err
	}
	if err := d.finishDeletions(); err != nil {
		return err
	}
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
	return d.eachStream(func(dir string) error {
		if err := d.recoverStream(dir); err != nil {
			return fmt.Errorf("stream %s: %w", filepath.Base(dir), err)
		}
		return nil
	})
}

// readFromDisk drops the kernel's cache of the streams after a write to the disk has
// failed: the kernel keeps pages that it could not write, and marks them as written.
func (d *Dir) readFromDisk() error {
	failed := filepath.Join(d.path, failedFile)
	if _, err := os.Lstat(failed); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := filepath.WalkDir(d.streams, func(path string, entry fs.DirEntry, err error) error {
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

// NoteFailure makes the next Recover drop the kernel's cache. The file that NoteFailure writes need not
// reach the disk: a power cut empties the cache anyway.
func (d *Dir) NoteFailure() {
	_ = os.WriteFile(filepath.Join(d.path, failedFile), nil, 0o600)
}

// Mend prepares the directory for a nats-server that follows another one in the same process,
// in which the Flusher is still running. Errors are as of Recover.
func (d *Dir) Mend() error {
	if err := d.startable(); err != nil {
		return err
	}
	return d.eachStream(func(dir string) error {
		_, err := d.mend(dir)
		return err
	})
}

// mend repairs a stream, and has nats-server recover it from its blocks alone. It reports
// whether the stream is still there.
func (d *Dir) mend(dir string) (there bool, err error) {
	if there, err = d.mendMeta(dir); err == nil && there {
		err = d.dropDerived(dir)
	}
	return there, err
}

func (d *Dir) recoverStream(dir string) error {
	there, err := d.mend(dir)
	if err != nil || !there {
		return err
	}
	if err := putBack(dir, d.sync); err != nil {
		return err
	}
	return d.sync.tree(dir) // as nats-server removes what is superseded as soon as it starts
}

func (d *Dir) dropDerived(dir string) error {
	msgs := filepath.Join(dir, msgsDir)
	// A purge replaces msgs, and may have been interrupted.
	if err := os.Mkdir(msgs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Removing them would not notice that the directory cannot be written if there are none.
	if err := os.WriteFile(filepath.Join(msgs, derived[0]), nil, 0o600); err != nil {
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
func (d *Dir) neverFlushed(dir string) (bool, error) {
	mode, err := readIfThere(filepath.Join(d.path, modeFile))
	if err != nil || string(mode) != Mode {
		return false, err
	}
	_, err = os.Lstat(filepath.Join(dir, keepDir)) // created after the first flush
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

func readIfThere(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// setAside moves a stream into lostDir, where nats-server does not look.
func (d *Dir) setAside(dir string) error {
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

// Mode is the mode of a server with a Flusher.
const Mode = "group"

// NoteMode notes how the server that has started flushes: Mode, or another text.
func (d *Dir) NoteMode(mode string) error {
	return d.sync.write(filepath.Join(d.path, modeFile), []byte(mode))
}

// MarkClean calls Settle, and spares the next start the recovery.
func (d *Dir) MarkClean() error {
	if err := d.Settle(); err != nil {
		return err
	}
	return d.sync.write(filepath.Join(d.path, cleanFile), nil)
}

// Settle flushes everything and removes the links.
func (d *Dir) Settle() error {
	if err := d.sync.tree(d.store); err != nil {
		return err
	}
	return d.eachStream(func(dir string) error { return dropLinks(dir, d.sync) })
}
