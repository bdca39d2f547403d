package natsembed

import (
	"errors"
	"io/fs"
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
