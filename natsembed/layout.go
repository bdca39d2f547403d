package natsembed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// Names of nats-server's directories.
const (
	streamsDir = "streams"
	msgsDir    = "msgs"
)

// streamsPath is the directory of the bucket account's streams.
func (d *dataDir) streamsPath() string {
	return filepath.Join(d.path, server.JetStreamStoreDir, bucketAccount, streamsDir)
}

// listStreams returns the names of the streams in dir, which need not exist.
func listStreams(dir string) ([]string, error) {
	names, err := listNames(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	streams := names[:0]
	for _, name := range names {
		if name[0] != '.' { // a dot marks a stream that is being deleted
			streams = append(streams, name)
		}
	}
	return streams, err
}

// syncTree flushes a directory and every file and directory below it, except those
// that are removed meanwhile.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (entry.IsDir() || entry.Type().IsRegular()) {
			err = syncPath(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// syncUp flushes dir and its parents up to top.
func syncUp(dir, top string) error {
	for {
		if err := syncPath(dir); err != nil {
			return err
		}
		if dir == top || filepath.Dir(dir) == dir {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// writeDurably writes a file and flushes it. After a power cut during the call the
// file has its old content or all of the new one.
func writeDurably(path string, data []byte) (err error) {
	const mode = 0o600
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return err
	}
	if err := syncPath(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}
