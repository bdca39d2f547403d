package natsembed

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

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

// eachStream calls do with the name of each stream, until it returns an error.
func (d *dataDir) eachStream(do func(name string) error) error {
	names, err := listStreams(d.streamsPath())
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// listStreams returns the names of the streams in dir, which need not exist.
func listStreams(dir string) ([]string, error) {
	names, err := listNames(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// A dot marks a stream that is being deleted.
	return slices.DeleteFunc(names, func(name string) bool { return name[0] == '.' }), err
}
