package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

const maxSettingFile = 4 << 20

var (
	errIrregular = errors.New("not a regular file")
	errTooLong   = fmt.Errorf("longer than %d MiB", maxSettingFile>>20)
)

// readRegular returns the content of a file, which may be named by a symbolic link. It reads
// regular files only: opening a pipe would block until another process writes to it.
func readRegular(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	return readAll(file)
}

func readAll(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxSettingFile+1))
	if len(content) > maxSettingFile {
		return nil, errTooLong
	}
	return content, err
}

// fileOf is the file of a flag; path is empty without one.
type fileOf struct{ flag, path string }

// Contents has the contents of files by their flags.
type Contents = map[string][]byte

// readFiles returns the contents of files. Its result has an error, which names the flag, for
// each file that cannot be read; the contents are those of the others.
func readFiles(files ...fileOf) (Contents, error) {
	var found problems
	contents := Contents{}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		content, err := readRegular(file.path)
		if err != nil {
			found.add(fmt.Errorf("--%s: %w", file.flag, WithoutPath(err)))
			continue
		}
		contents[file.flag] = content
	}
	return contents, found.err()
}
