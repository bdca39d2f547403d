package settings

import (
	"testing"
	"testing/synctest"
)

// A file that hangs at the start is an error.
func TestReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan error)
		if err := WithoutHanging(func() error { return <-mount }); err != errHangs {
			t.Error(err)
		}
		mount <- nil
	})
}
