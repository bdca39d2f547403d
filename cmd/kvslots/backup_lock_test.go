package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/natsembed"
)

// Two restores at once would delete and create one stream against each other, upon which
// nats-server has panicked.
func TestRestoresExcludeEachOther(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "kvslots.backup")
	_, p := serveProcess(t, "--data-dir", dir)
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	environment := envOf(map[string]string{"KVSLOTS_DATA_DIR": dir})
	restore := func(code int, want string) {
		t.Helper()
		if got, stdout, stderr := call(t, environment, "restore", file, "--replace"); got != code || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("exit code %d, %s%s; want %d, %s", got, stdout, stderr, code, want)
		}
	}
	if code, _, stderr := call(t, environment, "backup", file); code != exitDone {
		t.Fatal(stderr)
	}
	unlock, err := natsembed.LockRestore(dir)
	if err != nil {
		t.Fatal(err)
	}
	restore(exitFailed, "another restore is running")
	p.want(t, "GET", "/l/"+pool, "", 200, `{"id":"`+pool+`","count":2,"in_use":0,"available":2,"waiting":0}`)
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	restore(exitDone, "pools 1,")
}
