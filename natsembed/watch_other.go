//go:build !linux

package natsembed

// watch would report whether names in directories have changed. Without one they may
// always have.
type watch struct{}

func newWatch(string) *watch { return nil }

func (*watch) add(...string) bool { return false }
func (*watch) changed() bool      { return true }
func (*watch) close()             {}
