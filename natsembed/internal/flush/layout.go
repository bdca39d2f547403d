package flush

import (
	"errors"
	"io/fs"
	"slices"
)

const (
	streamsDir = "streams"
	msgsDir    = "msgs"
)

// listStreams returns the names of the streams in dir, which need not exist.
func listStreams(dir string) ([]string, error) {
	names, err := listNames(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// A dot marks a stream that is being deleted.
	return slices.DeleteFunc(names, func(name string) bool { return name[0] == '.' }), err
}
