package flush

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestRetriable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, true},
		{fmt.Errorf("stream S: %w", &os.LinkError{Op: "link", Err: syscall.ENOSPC}), true},
		{errors.New("write error: write /x/1.blk: no space left on device"), true},
		{fs.ErrPermission, true},
		{syscall.EIO, false},
		{fmt.Errorf("%w: %w", ErrFailed, syscall.ENOSPC), false},
		{errors.New("stream S is compressed"), false},
	} {
		if got := Retriable(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
