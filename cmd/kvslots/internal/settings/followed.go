package settings

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
)

// Followed are the files of a setting of serve, which are read again while it runs. After an error the
// previous content stays in force: of files that belong together, the operator may not have replaced
// all yet.
type Followed struct {
	Flag    string
	reading pendingRead[Contents]
	use     func(Contents) error
	inForce Contents
	known   atomic.Pointer[time.Time] // when the files last had the content that is in force
}

// Follow returns the files of a flag. read reads them, and use puts in force what has changed.
func Follow(flag string, read func() (Contents, error), use func(Contents) error) *Followed {
	return &Followed{Flag: flag, reading: pendingRead[Contents]{read: read}, use: use}
}

// Reload reads the files, within ReadTimeout, and reports whether they have changed. It must not be
// called concurrently.
func (f *Followed) Reload(ctx context.Context) (changed bool, err error) {
	contents, err := f.reading.await(ctx)
	if err == errHangs {
		err = fmt.Errorf("--%s: %w", f.Flag, err)
	}
	changed = f.inForce == nil || !maps.EqualFunc(contents, f.inForce, bytes.Equal)
	if err == nil && changed {
		err = f.use(contents)
	}
	if err != nil {
		return false, err
	}
	f.inForce = contents
	f.known.Store(new(time.Now()))
	return changed, nil
}

// Age returns how long ago the files had the content that is in force.
func (f *Followed) Age() time.Duration { return time.Since(*f.known.Load()) }

// follow reads the files of a flag, and has them followed.
func (s *Serve) follow(flag string, files []fileOf, use func(Contents) error) error {
	f := Follow(flag, func() (Contents, error) { return readFiles(readRegular, files...) }, use)
	s.Followed = append(s.Followed, f)
	_, err := f.Reload(context.Background())
	return err
}
