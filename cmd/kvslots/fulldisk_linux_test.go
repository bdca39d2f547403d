package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// On a disk that is nearly full the gateway lends nothing and answers 507, says why, and takes
// returns and deletions. On a full disk it answers 502. It recovers from both by itself, and
// every lease is as before.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	t.Parallel() // waits for seconds
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	p := startServe(t, noEnv, "--data-dir", filepath.Join(mount, "data"))
	p.want(t, "PUT", "/l/"+pool, `{"count":10}`, 200, "")
	var leases []string
	for range 10 {
		_, answer := p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":3000}`)
		var lease struct{ Lease string }
		if err := json.Unmarshal([]byte(answer), &lease); err != nil {
			t.Fatal(answer)
		}
		leases = append(leases, fmt.Sprintf(`{"lease":%q,"ttl":3000}`, lease.Lease))
	}

	inflate(t, mount, 600<<10)
	p.eventually(t, "/ready", "nearly full")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":3000}`, 507, "no room")
	p.want(t, "PUT", "/l/"+another, `{"count":1}`, 507, "no room")
	p.want(t, "POST", "/v1/sessions", "", 507, "store_full")
	p.want(t, "POST", "/l/"+pool+"/return", leases[0], 200, "true")
	p.want(t, "DELETE", "/l/"+another, "", 200, "true")
	if line := p.logs.waitFor(t, "not ready: send borrowers elsewhere"); !strings.Contains(fmt.Sprint(line["reason"]), "free some space") {
		t.Errorf("logged %v", line)
	}

	inflate(t, mount, 0)
	for code := 200; code == 200; { // a full disk still takes what fits into the last page of a file
		code, _ = p.ask(t, "POST", "/l/"+pool+"/renew", leases[1])
	}
	p.eventually(t, "/ready", "no space left on device")
	p.want(t, "POST", "/l/"+pool+"/return", leases[1], 502, "")
	kvslotstest.Must(t, os.Remove(filepath.Join(mount, "balloon")))
	p.eventually(t, "/ready", `"status":"ready"`)
	p.logs.waitFor(t, "ready again")
	for _, lease := range leases[2:] {
		p.want(t, "POST", "/l/"+pool+"/renew", lease, 200, "")
	}
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":3000}`, 200, "")
}

const another = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a02"

// inflate makes a file so large that only so many bytes of the disk are left.
func inflate(t *testing.T, mount string, left int64) {
	t.Helper()
	var disk unix.Statfs_t
	kvslotstest.Must(t, unix.Statfs(mount, &disk))
	f, err := os.OpenFile(filepath.Join(mount, "balloon"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	kvslotstest.Must(t, err)
	defer f.Close()
	_, _ = f.Write(make([]byte, max(0, int64(disk.Bavail)*disk.Bsize-left))) // as much as there is room for
	if left == 0 {
		_, _ = f.Write(make([]byte, 64<<10))
	}
}
