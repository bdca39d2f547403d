package settings

import (
	"testing"
	"testing/synctest"
)

// A file that hangs at the start is an error.
func TestReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan error)
		p := pendingRead[bool]{read: func() (bool, error) { return true, <-mount }}
		if _, err := p.await(t.Context()); err != errHangs {
			t.Error(err)
		}
		mount <- nil
	})
}
