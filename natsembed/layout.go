package natsembed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// What nats-server calls its directories and files.
const (
	streamsDir = "streams"
	msgsDir    = "msgs"
)

// streamsPath is the directory of the bucket account's streams.
func (d *dataDir) streamsPath() string {
	return filepath.Join(d.path, server.JetStreamStoreDir, bucketAccount, streamsDir)
}

// listStreams returns the streams in a directory of streams; there may be none yet.
func listStreams(dir string) ([]string, error) {
	names, err := listNames(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	streams := names[:0]
	for _, name := range names {
		if name[0] != '.' { // a dot marks one half deleted
			streams = append(streams, name)
		}
	}
	return streams, err
}

// syncTree flushes every file and directory below a directory, and itself. What is
// removed meanwhile is left out.
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

// syncUp flushes the directories from one up to another that contains it.
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

// writeDurably writes a file that is there as a whole after a power cut, or not.
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
