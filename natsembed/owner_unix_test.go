//go:build unix

package natsembed

import (
	"os"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A directory to which others may write is refused, and left as it is.
func TestDataDirOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		mode os.FileMode
		uid  int
		want string
	}{
		"all may write":       {0o777, os.Geteuid(), "others may write to it (mode 0777)"},
		"the group may write": {0o770, os.Geteuid(), "others may write to it (mode 0770)"},
		"another owner":       {0o700, 65534, "it belongs to the user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.uid != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			dir := t.TempDir()
			kvslotstest.Must(t, os.Chmod(dir, c.mode))
			kvslotstest.Must(t, os.Chown(dir, c.uid, -1))
			if _, err := Start(t.Context(), Config{DataDir: dir, Logger: logtest.Logger()}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}
