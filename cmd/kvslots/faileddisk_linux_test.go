package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A gateway whose embedded server fails answers pending requests and ends, though the server
// acknowledges no write any more.
func TestFailedDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServe(t, noEnv, "--data-dir", dir, "--sync", "interval")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":3000}`, 200, "")
	waiting := make(chan int)
	go func() {
		code, _ := p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":3000,"wait":300}`)
		waiting <- code
	}()
	p.eventually(t, "/l/"+pool, `"waiting":1`)
	// A device file cannot be flushed.
	index := filepath.Join(dir, "jetstream", "KVSLOTS", "streams", "KV_kvslots", "msgs", "index.db")
	kvslotstest.Must(t, os.Symlink("/dev/null", index))
	if code := <-waiting; code != 503 {
		t.Errorf("a waiting request is answered %d", code)
	}
	if code := p.exitCode(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if took := p.logged(t, "failed").Sub(p.logged(t, "draining")); took > 2*time.Second {
		t.Errorf("the end takes %v", took)
	}
}

// logged returns when the program has logged a message.
func (p *program) logged(t *testing.T, message string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, p.logs.waitFor(t, message)["time"].(string))
	kvslotstest.Must(t, err)
	return at
}
