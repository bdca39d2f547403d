package flush

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch reports whether names in directories have changed since the last call of
// changed. The kernel records a change before the system call that makes it returns,
// so changed sees all earlier changes by this process. It costs one system call;
// listing the directories costs tens of them.
//
// A nil watch always reports a change.
type watch struct {
	fd     int
	events [4096]byte
}

const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// newWatch returns nil if inotify is not available or does not work. It creates and
// removes a file in dir to check that.
func newWatch(dir string) *watch {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	w := &watch{fd: fd}
	if !w.works(dir) {
		w.close()
		return nil
	}
	return w
}

func (w *watch) works(dir string) bool {
	id, err := unix.InotifyAddWatch(w.fd, dir, watched)
	if err != nil || w.changed() {
		return false
	}
	f, err := os.CreateTemp(dir, "watch-*")
	if err != nil {
		return false
	}
	made := w.changed()
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return false
	}
	removed := w.changed()
	_, err = unix.InotifyRmWatch(w.fd, uint32(id))
	return made && removed && err == nil && w.changed() && !w.changed()
}

// add watches a directory from now on, and reports whether that was possible.
func (w *watch) add(path ...string) bool {
	if w == nil {
		return false
	}
	_, err := unix.InotifyAddWatch(w.fd, filepath.Join(path...), watched)
	return err == nil
}

// changed reports whether names may have changed since the last call.
func (w *watch) changed() bool {
	if w == nil {
		return true
	}
	for changed := false; ; changed = true {
		n, err := unix.Read(w.fd, w.events[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return changed
		case err != nil || n <= 0:
			return true
		}
	}
}

func (w *watch) close() {
	if w != nil {
		_ = unix.Close(w.fd) // nothing is written to it
	}
}
