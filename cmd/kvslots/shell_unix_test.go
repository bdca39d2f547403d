//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A shell finds a new pool, and what borrow has set, and so do the commands that it starts.
func TestBorrowInAShell(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	path, err := os.Executable()
	kvslotstest.Must(t, err)
	process := newProcess(t)
	process.Path, process.Args = "/bin/sh", []string{"sh", "-ec", `
		"$0" register --new --count 1 >pool
		KVSLOTS_POOL=$(cat pool); export KVSLOTS_POOL
		eval "$("$0" borrow)"
		test "$(sh -c 'echo $KVSLOTS_POSITION')" = 0
		"$0" renew --ttl 1m | grep "^KVSLOTS_LEASE=$KVSLOTS_LEASE$" >/dev/null
		"$0" return
		eval "$("$0" borrow)"
		unset KVSLOTS_POOL
		"$0" return @pool`, path}
	process.Env, process.Dir = append(process.Env, "KVSLOTS_SERVER="+p.url), t.TempDir()
	var out strings.Builder
	process.Stdout, process.Stderr = &out, &out
	startProcess(t, process)
	if err := process.Wait(); err != nil || out.String() != "returned\nreturned\n" {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// ls cuts no name that a script may read.
func TestListsWholeNames(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	name := strings.Repeat("n", 64)
	wantCall(t, 0, ".*", "", "register", pool, "--count", "1", "--name", name, "--server", p.url)
	wantCall(t, 0, "NAME[^\n]*\n"+name+" .*", "", "ls", "--server", p.url)
}
