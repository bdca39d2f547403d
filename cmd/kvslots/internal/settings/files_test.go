package settings

import (
	"testing"
	"testing/synctest"
)

// A file that hangs at the start is an error.
func TestReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan error)
		if _, err := withoutHanging(func() (bool, error) { return true, <-mount }); err != errHangs {
			t.Error(err)
		}
		mount <- nil
	})
}
