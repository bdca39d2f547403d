package flush

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// Dir is a data directory with the streams of one account of nats-server. While Recover, Mend,
// Settle or MarkClean is called, no nats-server may be running.
type Dir struct {
	path    string // absolute
	store   string // of nats-server
	streams string // of the account
	sync    Syncer
}

// NewDir returns the data directory path, in which nats-server keeps the streams of an account.
// All flushes go through sync; nil stands for those of the operating system.
func NewDir(path, account string, sync Syncer) *Dir {
	if sync == nil {
		sync = flushFile
	}
	store := filepath.Join(path, server.JetStreamStoreDir)
	return &Dir{path: path, store: store, streams: filepath.Join(store, account, streamsDir), sync: sync}
}

// Streams returns the names of the streams.
func (d *Dir) Streams() ([]string, error) { return listStreams(d.streams) }

func (d *Dir) eachStream(do func(dir string) error) error {
	names, err := listStreams(d.streams)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(filepath.Join(d.streams, name)); err != nil {
			return err
		}
	}
	return nil
}

// Flush flushes everything that nats-server has written.
func (d *Dir) Flush() error { return errors.Join(d.sync.tree(d.store), d.sync.up(d.path)) }

// Write replaces a file of the directory, and flushes it.
func (d *Dir) Write(path string, data []byte) error { return d.sync.write(path, data) }

// Groupable returns an error unless writes can be flushed in groups, as far as the file system
// and the configuration of the existing streams are concerned.
func (d *Dir) Groupable() error {
	if err := d.checkLinks(); err != nil {
		return err
	}
	return d.eachStream(func(dir string) error {
		err := checkMeta(filepath.Join(dir, server.JetStreamMetaFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// checkLinks returns an error unless a file can have two names, and one inode number.
func (d *Dir) checkLinks() (err error) {
	f, err := os.CreateTemp(d.path, "link-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	second := filepath.Join(d.path, secondName)
	if err := os.Remove(second); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an interrupted start
		return err
	}
	if err := os.Link(f.Name(), second); err != nil {
		return err
	}
	a, err := f.Stat()
	b, err2 := os.Lstat(second)
	if err := errors.Join(err, err2, os.Remove(second)); err != nil {
		return err
	}
	if inode(a) == 0 || inode(a) != inode(b) {
		return errors.New("files have no inode numbers")
	}
	return nil
}

const secondName = "link"

// checkMeta returns an error for a stream whose writes are not all in its block files
// by the time nats-server acknowledges them.
func checkMeta(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var meta server.FileStreamInfo
	if err := json.Unmarshal(data, &meta); err != nil {
		return fmt.Errorf("stream configuration: %w", err)
	}
	return checkStream(meta.StreamConfig)
}

func checkStream(c server.StreamConfig) error {
	switch {
	case c.Storage != server.FileStorage:
		return fmt.Errorf("stream %s is not stored in files", c.Name)
	case c.Replicas > 1:
		return fmt.Errorf("stream %s has replicas", c.Name)
	case c.Compression != server.NoCompression:
		return fmt.Errorf("stream %s is compressed", c.Name)
	case c.PersistMode != server.DefaultPersistMode:
		return fmt.Errorf("stream %s persists asynchronously", c.Name)
	}
	return nil
}
