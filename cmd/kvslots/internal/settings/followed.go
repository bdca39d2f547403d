package settings

import (
	"bytes"
	"maps"
	"sync/atomic"
	"time"
)

// Followed are the files of a setting of serve, which are read again while it runs. After an error the
// previous content stays in force: of files that belong together, the operator may not have replaced
// all yet.
type Followed struct {
	Flag    string
	files   []fileOf
	use     func(Contents) error // puts in force what has changed
	inForce Contents
	known   atomic.Pointer[time.Time] // when the files last had the content that is in force
}

// Reload reads the files, and reports whether they have changed. It must not be called concurrently.
func (f *Followed) Reload() (changed bool, err error) {
	contents, err := readFiles(f.files...)
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
	f := &Followed{Flag: flag, files: files, use: use}
	s.Followed = append(s.Followed, f)
	_, err := f.Reload()
	return err
}
